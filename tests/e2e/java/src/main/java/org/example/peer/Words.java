package org.example.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UnsupportedEncodingException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** The line protocol: in come a verb and form-encoded key=value words, out goes one JSON object per line. */
public final class Words {
    final String verb;
    private final Map<String, String> values = new LinkedHashMap<>();

    Words(String line) {
        String[] words = line.trim().split(" ");
        verb = words[0];
        for (int i = 1; i < words.length; i++) {
            add(words[i]);
        }
    }

    Words(String[] words) {
        verb = "";
        for (String word : words) {
            add(word);
        }
    }

    /** What a peer does with one order. */
    interface Obedience {
        Map<String, Object> obey(Words words) throws Exception;
    }

    /** Says that the peer is ready, then answers each line of the standard input until it ends. */
    static void obey(Obedience peer) throws IOException {
        say(Collections.singletonMap("ready", true));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer;
            try {
                answer = peer.obey(new Words(line));
            } catch (Throwable thrown) {
                answer = Calls.describe(thrown);
            }
            say(answer);
        }
    }

    private void add(String word) {
        int equals = word.indexOf('=');
        values.put(word.substring(0, equals), decode(word.substring(equals + 1)));
    }

    private static String decode(String text) {
        try {
            return URLDecoder.decode(text, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }

    public boolean has(String key) {
        return values.containsKey(key);
    }

    public String text(String key, String fallback) {
        return values.getOrDefault(key, fallback);
    }

    public int number(String key, int fallback) {
        return has(key) ? Integer.parseInt(values.get(key)) : fallback;
    }

    /** Words that start with the prefix, without it. */
    Map<String, String> under(String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        for (Map.Entry<String, String> entry : values.entrySet()) {
            if (entry.getKey().startsWith(prefix)) {
                found.put(entry.getKey().substring(prefix.length()), entry.getValue());
            }
        }
        return found;
    }

    private static void say(Map<String, Object> answer) {
        String line = json(answer);
        System.out.println(line);
        System.out.flush();
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        StringBuilder out = new StringBuilder();
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator).append(quote(String.valueOf(entry.getKey()))).append(':').append(json(entry.getValue()));
                separator = ",";
            }
            return (out.length() == 0 ? "{" : out) + "}";
        }
        if (value instanceof Collection) {
            String separator = "[";
            for (Object item : (Collection<?>) value) {
                out.append(separator).append(json(item));
                separator = ",";
            }
            return (out.length() == 0 ? "[" : out) + "]";
        }
        return quote(String.valueOf(value));
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
