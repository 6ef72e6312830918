"""The live service: HTTP interface and dashboard over a store."""
