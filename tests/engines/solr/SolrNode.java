import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.apache.solr.client.api.util.SolrVersion;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/**
 * Runs one Solr node on a free port of this machine until its standard input ends; the arguments are its folder and the
 * folder of its settings.
 */
public final class SolrNode {
    private SolrNode() {}

    private static void copy(Path source, Path target) throws IOException {
        try (Stream<Path> files = Files.walk(source)) {
            for (Path file : files.toList()) {
                Path copied = target.resolve(source.relativize(file).toString());
                if (Files.isDirectory(file)) {
                    Files.createDirectories(copied);
                } else {
                    Files.copy(file, copied);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        copy(Path.of(arguments[1]), folder.resolve("home"));
        JettyConfig config = JettyConfig.builder().setPort(0).setContext("/solr").useOnlyHttp1(true).stopAtShutdown(false).build();
        JettySolrRunner node = new JettySolrRunner(folder.resolve("home").toString(), config);
        node.start();
        System.out.printf("{\"engine\": \"solr\", \"version\": \"%s\", \"port\": %d}%n", SolrVersion.LATEST_STRING, node.getLocalPort());
        System.in.transferTo(OutputStream.nullOutputStream());
        node.stop();
        System.exit(0); // threads of libraries may run on
    }
}
