/* A Dubbo provider that answers every call at once with the same value.
 *
 *   provider --listen 127.0.0.1:20881 [--listen 127.0.0.1:20882 ...]
 *
 * Port 0 takes a free port. Once it listens it prints one JSON line with the ports; after SIGTERM
 * or SIGINT one JSON line with what it served. Heartbeats are answered, one-way calls are counted.
 * It knows Hessian2 only and closes a connection that sends anything it does not follow.
 */
#define _GNU_SOURCE
#include "dubbo.h"

/* Requests are read in batches of up to IN_SIZE; a frame above it closes the connection. An
 * answer is never longer than MAX_ANSWER, and reading pauses while fewer bytes than that are
 * free in the output, so a peer that does not read costs a fixed amount of memory. */
enum { IN_SIZE = 1 << 18, OUT_SIZE = 1 << 18, MAX_ANSWER = 256, EVENTS = 64 };

struct connection {
    int fd;
    bool waits_for_write;
    size_t in_size, out_start, out_size;
    uint8_t *in, *out;
};

static struct {
    uint64_t calls, one_way, heartbeats, connections, refused;
} served;

static uint8_t value_body[MAX_ANSWER];
static uint32_t value_body_size;

static void build_value(void) {
    uint8_t *at = value_body;
    *at++ = KIND_VALUE_WITH_ATTACHMENTS;
    at = put_string(at, "Hello from the benchmark");
    *at++ = 'H';
    at = put_string(at, "dubbo");
    at = put_string(at, "2.0.2");
    *at++ = 'Z';
    value_body_size = (uint32_t)(at - value_body);
}

static uint8_t *answer_call(uint8_t *at, const uint8_t *frame) {
    if (!(frame[2] & FLAG_TWO_WAY)) {
        served.one_way++;
        return at;
    }
    served.calls++;
    put_header(at, HESSIAN2, STATUS_OK, get_u64(frame + 4), value_body_size);
    memcpy(at + HEADER_SIZE, value_body, value_body_size);
    return at + HEADER_SIZE + value_body_size;
}

/* A heartbeat's answer repeats its serialization and body; other events have no answer. */
static uint8_t *answer_event(uint8_t *at, const uint8_t *frame, uint32_t body_size) {
    if (!(frame[2] & FLAG_TWO_WAY) || body_size > MAX_ANSWER - HEADER_SIZE) return at;
    served.heartbeats++;
    uint8_t flags = FLAG_EVENT | (frame[2] & SERIALIZATION_MASK);
    put_header(at, flags, STATUS_OK, get_u64(frame + 4), body_size);
    memcpy(at + HEADER_SIZE, frame + HEADER_SIZE, body_size);
    return at + HEADER_SIZE + body_size;
}

/* Answers the whole frames of the input; false when the stream cannot be followed. */
static bool answer_frames(struct connection *connection) {
    size_t done = 0;
    uint8_t *out = connection->out + connection->out_start + connection->out_size;
    uint8_t *limit = connection->out + OUT_SIZE - MAX_ANSWER;
    while (connection->in_size - done >= HEADER_SIZE && out <= limit) {
        const uint8_t *frame = connection->in + done;
        uint32_t body_size = get_u32(frame + 12);
        if (!has_magic(frame) || body_size > IN_SIZE - HEADER_SIZE) return false;
        if (connection->in_size - done < HEADER_SIZE + body_size) break;
        if (frame[2] & FLAG_EVENT) {
            if (frame[2] & FLAG_REQUEST) out = answer_event(out, frame, body_size);
        } else if ((frame[2] & FLAG_REQUEST) && (frame[2] & SERIALIZATION_MASK) == HESSIAN2) {
            out = answer_call(out, frame);
        } else {
            return false;
        }
        done += HEADER_SIZE + body_size;
    }
    connection->in_size -= done;
    memmove(connection->in, connection->in + done, connection->in_size);
    connection->out_size = (size_t)(out - connection->out) - connection->out_start;
    return true;
}

/* Writes what is pending; false when the peer is gone. */
static bool flush(struct connection *connection) {
    while (connection->out_size > 0) {
        ssize_t sent = send(connection->fd, connection->out + connection->out_start,
                            connection->out_size, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN;
        connection->out_start += (size_t)sent;
        connection->out_size -= (size_t)sent;
    }
    connection->out_start = 0;
    return true;
}

static void close_connection(struct connection *connection) {
    close(connection->fd);
    free(connection->in);
    free(connection->out);
    free(connection);
}

/* Reading stops while output waits: what was read before is answered first. */
static void serve(int epoll, struct connection *connection, uint32_t events) {
    bool alive = true;
    if (events & ~(uint32_t)EPOLLOUT && connection->in_size < IN_SIZE) {
        ssize_t size = recv(connection->fd, connection->in + connection->in_size,
                            IN_SIZE - connection->in_size, 0);
        alive = size > 0 || (size < 0 && errno == EAGAIN);
        if (size > 0) connection->in_size += (size_t)size;
    }
    size_t before;
    do {
        before = connection->in_size;
        if (alive && !answer_frames(connection)) {
            served.refused++;
            alive = false;
        }
        alive = alive && flush(connection);
    } while (alive && connection->out_size == 0 && connection->in_size < before);
    if (!alive) {
        close_connection(connection);
    } else if (connection->waits_for_write != (connection->out_size > 0)) {
        connection->waits_for_write = connection->out_size > 0;
        watch(epoll, EPOLL_CTL_MOD, connection->fd,
              connection->waits_for_write ? EPOLLOUT : EPOLLIN, connection);
    }
}

static void accept_connection(int epoll, int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return;
    make_prompt(fd);
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        connection->in = malloc(IN_SIZE);
        connection->out = malloc(OUT_SIZE);
    }
    if (!connection || !connection->in || !connection->out) fail("memory");
    watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, connection);
    served.connections++;
}

int main(int count, char **arguments) {
    int stop = stop_signal(), epoll = epoll_create1(0);
    if (start_listeners(epoll, count, arguments) == 0) {
        fprintf(stderr, "usage: provider --listen HOST:PORT [--listen HOST:PORT ...]\n");
        return 2;
    }
    build_value();
    watch(epoll, EPOLL_CTL_ADD, stop, EPOLLIN, NULL);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int index = 0; index < ready; index++) {
            void *context = events[index].data.ptr;
            if (!context) goto stopped;
            if (is_listener(context))
                accept_connection(epoll, *(int *)context);
            else
                serve(epoll, context, events[index].events);
        }
    }
stopped:
    printf("{\"calls\": %lu, \"one_way\": %lu, \"heartbeats\": %lu, \"connections\": %lu, "
           "\"refused\": %lu, \"cpu_seconds\": %.3f}\n",
           served.calls, served.one_way, served.heartbeats, served.connections, served.refused,
           cpu_seconds());
    return 0;
}
