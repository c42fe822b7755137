package org.example.peer;

/** A business exception that both sides know. */
public class GreetingException extends Exception {
    private static final long serialVersionUID = 1L;

    public GreetingException(String message) {
        super(message);
    }
}
