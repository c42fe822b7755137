package org.example.peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;

/**
 * One provider: words name, port, registry (absent: none), application, group, version, token, path, weight, tag,
 * timeout, serialization, payload, threads, and p.KEY for further URL parameters.
 * Prints one JSON line when it serves; ends when its input closes or on SIGTERM, which is Dubbo's graceful way.
 */
public final class Provider {
    private Provider() {}

    public static void main(String[] args) throws Exception {
        Words words = new Words(args);
        int port = words.number("port", 0);
        ServiceConfig<Greeter> service = new ServiceConfig<>();
        service.setApplication(application(words));
        service.setRegistry(registry(words));
        service.setProtocol(protocol(words, port));
        service.setInterface(Greeter.class);
        service.setRef(new GreeterService(words.text("name", "p"), port));
        options(service, words);
        service.export();
        Map<String, Object> ready = new LinkedHashMap<>();
        ready.put("ready", port);
        ready.put("url", String.valueOf(service.getExportedUrls()));
        Words.say(ready);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (in.readLine() != null) {
            continue;
        }
        System.exit(0);
    }

    private static ApplicationConfig application(Words words) {
        ApplicationConfig application = new ApplicationConfig(words.text("application", "greeter"));
        application.setQosEnable(false);
        return application;
    }

    private static RegistryConfig registry(Words words) {
        RegistryConfig registry = new RegistryConfig(words.text("registry", "N/A"));
        if (words.has("registry")) {
            registry.setUseAsConfigCenter(false);
            registry.setUseAsMetadataCenter(false);
            Map<String, String> parameters = new HashMap<>();
            parameters.put("register-mode", "interface"); // 3.x would register by application as well
            registry.setParameters(parameters);
        }
        return registry;
    }

    private static ProtocolConfig protocol(Words words, int port) {
        ProtocolConfig protocol = new ProtocolConfig("dubbo", port);
        protocol.setHost("127.0.0.1");
        if (words.has("serialization")) {
            protocol.setSerialization(words.text("serialization", ""));
        }
        if (words.has("payload")) {
            protocol.setPayload(words.number("payload", 0));
        }
        if (words.has("threads")) {
            protocol.setThreadpool("fixed");
            protocol.setThreads(words.number("threads", 0));
            protocol.setQueues(0);
        }
        return protocol;
    }

    private static void options(ServiceConfig<Greeter> service, Words words) {
        Map<String, String> parameters = new HashMap<>(words.under("p."));
        parameters.put("bind.ip", "127.0.0.1");
        service.setParameters(parameters);
        if (words.has("group")) {
            service.setGroup(words.text("group", ""));
        }
        if (words.has("version")) {
            service.setVersion(words.text("version", ""));
        }
        if (words.has("token")) {
            service.setToken(words.text("token", ""));
        }
        if (words.has("path")) {
            service.setPath(words.text("path", ""));
        }
        if (words.has("weight")) {
            service.setWeight(words.number("weight", 100));
        }
        if (words.has("tag")) {
            service.setTag(words.text("tag", ""));
        }
        if (words.has("timeout")) {
            service.setTimeout(words.number("timeout", 1000));
        }
    }
}
