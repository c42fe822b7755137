package org.example.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;

/**
 * A provider that is told what to do line by line: "export" and "unexport".
 * Words of an export: name, interface, protocol (or several), port, registry (absent: none), group, version, token, path, weight, tag, timeout,
 * serialization, payload, threads, and p.KEY for further URL parameters.
 * Ends at once when its input closes, and in Dubbo's graceful way on SIGTERM.
 */
public final class Provider {
    private final ApplicationConfig application;
    private final Map<String, ServiceConfig<Object>> services = new HashMap<>();

    private Provider(Words words) {
        application = new ApplicationConfig(words.text("application", "greeter"));
        application.setQosEnable(false);
    }

    public static void main(String[] args) throws Exception {
        Provider provider = new Provider(new Words(args));
        Words.obey(provider::obey);
        Runtime.getRuntime().halt(0); // the test is gone, perhaps its registry as well: nothing to say goodbye to
    }

    private Map<String, Object> obey(Words words) throws ReflectiveOperationException {
        String name = words.text("name", "p");
        Map<String, Object> answer = new LinkedHashMap<>();
        switch (words.verb) {
            case "export":
                services.put(name, export(name, words));
                answer.put("urls", String.valueOf(services.get(name).getExportedUrls()));
                return answer;
            case "unexport":
                services.remove(name).unexport();
                return answer;
            default:
                throw new IllegalArgumentException(words.verb);
        }
    }

    private ServiceConfig<Object> export(String name, Words words) throws ReflectiveOperationException {
        int port = words.number("port", 0);
        String contract = words.text("interface", Greeter.class.getName());
        ServiceConfig<Object> service = new ServiceConfig<>();
        service.setApplication(application);
        service.setRegistry(registry(words));
        service.setProtocols(protocols(words, port));
        service.setInterface(Class.forName(contract));
        service.setRef(Class.forName(contract + "Service")
                .getConstructor(String.class, int.class)
                .newInstance(name, port));
        options(service, words);
        service.export();
        return service;
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

    /** Several protocols have one port after the other. */
    private static List<ProtocolConfig> protocols(Words words, int port) {
        List<ProtocolConfig> protocols = new ArrayList<>();
        for (String name : words.text("protocol", "dubbo").split(",")) {
            protocols.add(protocol(words, name, port + protocols.size()));
        }
        return protocols;
    }

    private static ProtocolConfig protocol(Words words, String name, int port) {
        ProtocolConfig protocol = new ProtocolConfig(name, port);
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

    private static void options(ServiceConfig<Object> service, Words words) {
        Map<String, String> parameters = new HashMap<>(words.under("p."));
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
