package org.example.peer;

import java.io.Serializable;
import java.util.List;
import java.util.Map;

/** An argument with nested values, so that both copies share one class definition on the wire. */
public class Order implements Serializable {
    private static final long serialVersionUID = 1L;

    private String number;
    private long cents;
    private List<String> lines;
    private Map<String, Object> notes;

    public String getNumber() {
        return number;
    }

    public void setNumber(String number) {
        this.number = number;
    }

    public long getCents() {
        return cents;
    }

    public void setCents(long cents) {
        this.cents = cents;
    }

    public List<String> getLines() {
        return lines;
    }

    public void setLines(List<String> lines) {
        this.lines = lines;
    }

    public Map<String, Object> getNotes() {
        return notes;
    }

    public void setNotes(Map<String, Object> notes) {
        this.notes = notes;
    }
}
