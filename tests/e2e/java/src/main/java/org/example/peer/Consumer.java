package org.example.peer;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.rpc.service.GenericService;

/**
 * A consumer that is told what to do line by line: "refer", "call", "load", "unload", "destroy".
 * One JVM holds many references, so that tests share it.
 */
public final class Consumer {
    private final ApplicationConfig application = new ApplicationConfig("order-web");
    private final Map<String, ReferenceConfig<?>> references = new ConcurrentHashMap<>();
    private final Map<String, Load> loads = new ConcurrentHashMap<>();

    private Consumer() {
        application.setQosEnable(false);
    }

    public static void main(String[] args) throws Exception {
        Words.obey(new Consumer()::obey);
        Runtime.getRuntime().halt(0); // the test is gone, perhaps its registry as well: nothing to say goodbye to
    }

    private Map<String, Object> obey(Words words) throws Exception {
        String ref = words.text("ref", "default");
        switch (words.verb) {
            case "refer":
                return refer(ref, words);
            case "call":
                return Calls.once(references.get(ref).get(), words);
            case "load":
                loads.put(ref, Load.start(references.get(ref).get(), words));
                return new LinkedHashMap<>();
            case "unload":
                return loads.remove(ref).finish(words.text("now", "true").equals("true"));
            case "destroy":
                references.remove(ref).destroy();
                return new LinkedHashMap<>();
            default:
                throw new IllegalArgumentException(words.verb);
        }
    }

    private Map<String, Object> refer(String ref, Words words) throws ClassNotFoundException {
        boolean generic = words.has("generic");
        ReferenceConfig<Object> reference = new ReferenceConfig<>();
        reference.setApplication(application);
        if (words.has("registry")) {
            reference.setRegistry(new RegistryConfig(words.text("registry", "")));
        } else {
            reference.setUrl(words.text("url", ""));
        }
        String contract = words.text("interface", Greeter.class.getName());
        if (generic) {
            reference.setInterface(contract);
            reference.setGeneric(words.text("generic", "true"));
        } else {
            reference.setInterface(Class.forName(contract));
        }
        Map<String, String> parameters = new HashMap<>(words.under("p."));
        reference.setParameters(parameters);
        reference.setCheck(words.text("check", "true").equals("true"));
        reference.setTimeout(words.has("timeout") ? words.number("timeout", 0) : null);
        reference.setRetries(words.number("retries", 0));
        if (words.has("group")) {
            reference.setGroup(words.text("group", ""));
        }
        if (words.has("version")) {
            reference.setVersion(words.text("version", ""));
        }
        if (words.has("connections")) {
            reference.setConnections(words.number("connections", 1));
        }
        Object proxy = reference.get();
        references.put(ref, reference);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("generic", proxy instanceof GenericService);
        return answer;
    }
}
