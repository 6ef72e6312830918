/** What works in Node only. */

export { FolderSpool } from "./client/folder_spool.js";
