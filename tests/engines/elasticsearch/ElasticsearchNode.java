import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.elasticsearch.Build;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/** Runs one Elasticsearch node on a free port of this machine until its standard input ends; the argument is its folder. */
public final class ElasticsearchNode {
    private static final String MODULE = "transport-netty4";

    private ElasticsearchNode() {}

    private static Settings settings(Path folder) {
        return Settings.builder()
            .put("path.home", folder)
            .put("cluster.name", "interleaf-tests")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", 0)
            .put("transport.port", 0)
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("http.cors.enabled", true) // front ends in a browser ask from pages of other addresses
            .put("http.cors.allow-origin", "/.*/")
            .put("http.cors.allow-headers", "Content-Type,X-User,X-Elastic-Client-Meta")
            .put("node.processors", 2)
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    }

    /** Writes the module for HTTP where Elasticsearch looks for modules: the jars that Maven has put aside, described. */
    private static void install(Path module) throws Exception {
        Path classes = Path.of(ElasticsearchNode.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        Files.createDirectories(module);
        try (Stream<Path> jars = Files.list(classes.resolveSibling(MODULE))) {
            for (Path jar : jars.toList()) {
                Files.copy(jar, module.resolve(jar.getFileName()));
            }
        }
        String version = Build.current().version();
        Files.write(module.resolve("plugin-descriptor.properties"), List.of(
            "name=" + MODULE,
            "description=HTTP",
            "version=" + version,
            "elasticsearch.version=" + version,
            "java.version=17",
            "classname=org.elasticsearch.transport.netty4.Netty4Plugin"
        ));
    }

    public static void main(String[] arguments) throws Exception {
        LogConfigurator.configureESLogging();
        Path folder = Path.of(arguments[0]);
        install(folder.resolve("modules").resolve(MODULE));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings(folder), Map.of(), null, () -> "engine");
        PluginsLoader modules = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(environment.modulesDir()), Set.of(), Map.of(), false);
        try (Node node = new Node(environment, modules)) {
            node.start();
            int port = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
            System.out.printf("{\"engine\": \"elasticsearch\", \"version\": \"%s\", \"port\": %d}%n", Build.current().version(), port);
            System.in.transferTo(OutputStream.nullOutputStream());
        }
        System.exit(0); // threads of libraries may run on
    }
}
