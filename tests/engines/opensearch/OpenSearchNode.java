import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.Version;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;
import org.opensearch.script.mustache.MustachePlugin;
import org.opensearch.search.pipeline.common.SearchPipelineCommonModulePlugin;
import org.opensearch.transport.Netty4Plugin;

/** Runs one OpenSearch node on a free port of this machine until its standard input ends; the argument is its folder. */
public final class OpenSearchNode extends Node {
    private static final List<Class<? extends Plugin>> MODULES = List.of(
        Netty4Plugin.class,
        CommonAnalysisPlugin.class,
        MustachePlugin.class,
        SearchPipelineCommonModulePlugin.class
    );

    private OpenSearchNode(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "engine"), MODULES, true);
    }

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

    public static void main(String[] arguments) throws Exception {
        LogConfigurator.registerErrorListener();
        try (OpenSearchNode node = new OpenSearchNode(settings(Path.of(arguments[0])))) {
            node.start();
            int port = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().getPort();
            System.out.printf("{\"engine\": \"opensearch\", \"version\": \"%s\", \"port\": %d}%n", Version.CURRENT, port);
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        }
        System.exit(0); // threads of libraries may run on
    }
}
