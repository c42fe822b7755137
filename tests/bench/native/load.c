/* A Dubbo load generator with two modes; it prints one JSON object.
 *
 *   load --to HOST:PORT [--to ...] --connections 8 --outstanding 1 --seconds 3 [--warm-up 1]
 *   load --to HOST:PORT [--to ...] --connections 50 --rate 2000 --seconds 10 [--warm-up 1]
 *
 * Closed loop (no --rate): each connection keeps a fixed number of calls outstanding, so the rate
 * is what the other side can do. Open loop (--rate): calls start at fixed times whatever the
 * other side does, and latency counts from the intended start, so a stall is charged to every
 * call that should have started during it. Connections take turns; so do several --to.
 *
 * Every reply is checked: a response, Hessian2, status 20, kind 4, and the id of a call that is
 * outstanding on that connection.
 */
#define _GNU_SOURCE
#include <sys/timerfd.h>

#include "dubbo.h"
#include "histogram.h"

/* An open loop has at most OPEN_SLOTS calls outstanding per connection; a call above that is
 * counted as skipped, since the other side is more than OPEN_SLOTS calls behind by then. */
enum { MAX_TARGETS = 256, OPEN_SLOTS = 1024, IN_SIZE = 1 << 18, EVENTS = 64, MAX_BODY = 2048 };

#define SECOND INT64_C(1000000000)
#define DRAIN_TIME (2 * SECOND) /* how long replies are awaited after the last call */
#define NO_SLOT UINT32_MAX

struct call {
    uint64_t id;      /* 0 while the slot is free */
    int64_t start_ns; /* the intended start in open loop */
    uint32_t next_free;
};

struct connection {
    int fd; /* -1 once it failed */
    bool waits_for_write;
    uint32_t first_free, outstanding;
    size_t in_size, out_start, out_size;
    struct call *calls;
    uint8_t *in, *out;
};

static struct {
    struct sockaddr_in targets[MAX_TARGETS];
    int target_count, connections;
    uint32_t slots;
    double rate, seconds, warm_up;
    const char *interface, *version, *method;
    size_t body_size;
} options = {.connections = 1, .slots = 1, .seconds = 3, .warm_up = 1, .body_size = 249,
             .interface = "org.example.Greeter", .version = "1.0.0", .method = "sayHello"};

static struct {
    uint64_t calls, status, unmatched, malformed, connection, skipped, lost;
    uint8_t first_status; /* the first status that was not 20 */
    struct histogram latency;
} results;

static uint8_t frame[HEADER_SIZE + MAX_BODY];
static size_t frame_size;
static uint64_t last_id;
static uint64_t outstanding;
static int64_t measure_from, measure_until;
static int epoll;

/* A call as a Java consumer sends it: protocol version, interface, version, method, descriptor,
 * one string argument, attachments. The argument is filled up to the wanted body size. */
static uint8_t *put_body(uint8_t *at, const char *argument) {
    const char *attachments[] = {
        "path", options.interface, "interface", options.interface, "version", options.version,
        "timeout", "3000", "remote.application", "order-web"};
    at = put_string(at, "2.0.2");
    at = put_string(at, options.interface);
    at = put_string(at, options.version);
    at = put_string(at, options.method);
    at = put_string(at, "Ljava/lang/String;");
    at = put_string(at, argument);
    *at++ = 'H';
    for (size_t index = 0; index < sizeof attachments / sizeof *attachments; index++)
        at = put_string(at, attachments[index]);
    *at++ = 'Z';
    return at;
}

static void build_frame(void) {
    char argument[1024];
    memset(argument, 'x', sizeof argument);
    if (strlen(options.interface) + strlen(options.version) + strlen(options.method) > 300)
        fail("names too long");
    for (size_t size = 0; size < sizeof argument; size++) {
        argument[size] = 0;
        size_t body_size = (size_t)(put_body(frame + HEADER_SIZE, argument) - frame) - HEADER_SIZE;
        if (body_size >= options.body_size) {
            frame_size = HEADER_SIZE + body_size;
            put_header(frame, FLAG_REQUEST | FLAG_TWO_WAY | HESSIAN2, 0, 0, (uint32_t)body_size);
            return;
        }
        argument[size] = 'x';
    }
    fail("--bytes too large");
}

static void fail_connection(struct connection *connection) {
    results.connection++;
    results.lost += connection->outstanding;
    outstanding -= connection->outstanding;
    connection->outstanding = 0;
    close(connection->fd);
    connection->fd = -1;
}

static void flush(struct connection *connection) {
    while (connection->out_size > 0) {
        ssize_t sent = send(connection->fd, connection->out + connection->out_start,
                            connection->out_size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) {
            fail_connection(connection);
            return;
        }
        connection->out_start += (size_t)sent;
        connection->out_size -= (size_t)sent;
    }
    if (connection->out_size == 0) connection->out_start = 0;
    if (connection->waits_for_write != (connection->out_size > 0)) {
        connection->waits_for_write = connection->out_size > 0;
        watch(epoll, EPOLL_CTL_MOD, connection->fd,
              connection->waits_for_write ? EPOLLIN | EPOLLOUT : EPOLLIN, connection);
    }
}

/* Queues one call; false when every slot of the connection is outstanding. The output holds one
 * frame per slot: bytes of a call that was answered have left, so it cannot overflow. */
static bool start_call(struct connection *connection, int64_t start_ns) {
    uint32_t slot = connection->first_free;
    if (slot == NO_SLOT) return false;
    struct call *call = &connection->calls[slot];
    connection->first_free = call->next_free;
    call->id = ++last_id * options.slots + slot;
    call->start_ns = start_ns;
    if (connection->out_start + connection->out_size + frame_size > options.slots * frame_size) {
        memmove(connection->out, connection->out + connection->out_start, connection->out_size);
        connection->out_start = 0;
    }
    uint8_t *at = connection->out + connection->out_start + connection->out_size;
    memcpy(at, frame, frame_size);
    put_u64(at + 4, call->id);
    connection->out_size += frame_size;
    connection->outstanding++;
    outstanding++;
    return true;
}

/* Errors count from the first call on; successes only inside the measured time. */
static void settle(const struct call *call, const uint8_t *reply, int64_t now) {
    if (reply[3] != STATUS_OK) {
        if (results.status++ == 0) results.first_status = reply[3];
        return;
    }
    int64_t reference = options.rate > 0 ? call->start_ns : now;
    if (reference < measure_from || reference >= measure_until) return;
    results.calls++;
    record(&results.latency, now - call->start_ns);
}

/* Matches one reply to its call; false when the stream is not what a provider sends. */
static bool take_reply(struct connection *connection, const uint8_t *reply, int64_t now) {
    if (reply[2] & FLAG_EVENT) return true;
    if (reply[2] != HESSIAN2) return false;
    if (reply[3] == STATUS_OK && reply[HEADER_SIZE] != KIND_VALUE_WITH_ATTACHMENTS) return false;
    uint64_t id = get_u64(reply + 4);
    uint32_t slot = (uint32_t)(id % options.slots);
    struct call *call = &connection->calls[slot];
    if (id == 0 || call->id != id) {
        results.unmatched++;
        return true;
    }
    settle(call, reply, now);
    call->id = 0;
    call->next_free = connection->first_free;
    connection->first_free = slot;
    connection->outstanding--;
    outstanding--;
    if (options.rate == 0 && now < measure_until) start_call(connection, now);
    return true;
}

static void receive(struct connection *connection) {
    ssize_t size = recv(connection->fd, connection->in + connection->in_size,
                        IN_SIZE - connection->in_size, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
        fail_connection(connection);
        return;
    }
    int64_t now = now_ns();
    size_t end = connection->in_size + (size_t)size, done = 0;
    while (end - done >= HEADER_SIZE) {
        const uint8_t *reply = connection->in + done;
        uint32_t body_size = get_u32(reply + 12);
        bool is_sound = has_magic(reply) && body_size > 0 && body_size <= IN_SIZE - HEADER_SIZE;
        if (is_sound && end - done < HEADER_SIZE + body_size) break;
        if (!is_sound || !take_reply(connection, reply, now)) {
            results.malformed++;
            fail_connection(connection);
            return;
        }
        done += HEADER_SIZE + body_size;
    }
    connection->in_size = end - done;
    memmove(connection->in, connection->in + done, connection->in_size);
    flush(connection);
}

static void open_connection(struct connection *connection, int index) {
    const struct sockaddr_in *target = &options.targets[index % options.target_count];
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (const struct sockaddr *)target, sizeof *target) < 0)
        fail("connect");
    make_prompt(connection->fd);
    connection->in = malloc(IN_SIZE);
    connection->out = malloc(options.slots * frame_size);
    connection->calls = calloc(options.slots, sizeof *connection->calls);
    if (!connection->in || !connection->out || !connection->calls) fail("memory");
    for (uint32_t slot = 0; slot < options.slots; slot++)
        connection->calls[slot].next_free = slot + 1 < options.slots ? slot + 1 : NO_SLOT;
    watch(epoll, EPOLL_CTL_ADD, connection->fd, EPOLLIN, connection);
}

/* Starts every call whose time has come and arms the timer for the next one. */
static void start_due_calls(struct connection *connections, int timer, int64_t begin) {
    static uint64_t started;
    int64_t now = now_ns(), due;
    for (;; started++) {
        due = begin + (int64_t)((double)started * 1e9 / options.rate);
        if (due > now || due >= measure_until) break;
        struct connection *connection = &connections[started % (uint64_t)options.connections];
        if (connection->fd >= 0 && start_call(connection, due))
            flush(connection);
        else if (due >= measure_from)
            results.skipped++;
    }
    if (due >= measure_until) due = measure_until + DRAIN_TIME;
    struct itimerspec when = {.it_value = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL) < 0) fail("timer");
}

static void run(struct connection *connections) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    watch(epoll, EPOLL_CTL_ADD, timer, EPOLLIN, NULL);
    int64_t begin = now_ns();
    measure_from = begin + (int64_t)(options.warm_up * 1e9);
    measure_until = measure_from + (int64_t)(options.seconds * 1e9);
    if (options.rate > 0) {
        start_due_calls(connections, timer, begin);
    } else {
        for (int index = 0; index < options.connections; index++) {
            while (start_call(&connections[index], now_ns())) continue;
            flush(&connections[index]);
        }
    }
    for (int64_t now = begin; now < measure_until || outstanding > 0; now = now_ns()) {
        if (now >= measure_until + DRAIN_TIME) break;
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, 10);
        for (int index = 0; index < ready; index++) {
            struct connection *connection = events[index].data.ptr;
            if (!connection) {
                start_due_calls(connections, timer, begin);
            } else if (connection->fd >= 0) {
                if (events[index].events & ~(uint32_t)EPOLLOUT)
                    receive(connection);
                else
                    flush(connection);
            }
        }
    }
    results.lost += outstanding;
}

static void print_results(void) {
    printf("{\"mode\": \"%s\", \"connections\": %d, \"outstanding\": %u, \"rate\": %.1f, "
           "\"seconds\": %.3f, \"body_bytes\": %zu, \"calls\": %lu, \"calls_per_second\": %.1f, ",
           options.rate > 0 ? "open" : "closed", options.connections,
           options.rate > 0 ? 0 : options.slots, options.rate, options.seconds,
           frame_size - HEADER_SIZE, results.calls, (double)results.calls / options.seconds);
    printf("\"errors\": {\"status\": %lu, \"unmatched\": %lu, \"malformed\": %lu, "
           "\"connection\": %lu, \"skipped\": %lu, \"lost\": %lu}, \"first_status\": %u, ",
           results.status, results.unmatched, results.malformed, results.connection,
           results.skipped, results.lost, results.first_status);
    printf("\"latency_us\": ");
    print_latency(&results.latency);
    printf(", \"cpu_seconds\": %.3f}\n", cpu_seconds());
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"to", required_argument, NULL, 't'},        {"connections", required_argument, NULL, 'c'},
        {"outstanding", required_argument, NULL, 'o'}, {"rate", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},   {"warm-up", required_argument, NULL, 'w'},
        {"bytes", required_argument, NULL, 'b'},     {"interface", required_argument, NULL, 'i'},
        {"version", required_argument, NULL, 'v'},   {"method", required_argument, NULL, 'm'}, {0}};
    int option;
    while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
        switch (option) {
            case 't':
                if (options.target_count == MAX_TARGETS) fail("too many --to");
                options.targets[options.target_count++] = parse_address(optarg);
                break;
            case 'c': options.connections = atoi(optarg); break;
            case 'o': options.slots = (uint32_t)atoi(optarg); break;
            case 'r': options.rate = atof(optarg); break;
            case 's': options.seconds = atof(optarg); break;
            case 'w': options.warm_up = atof(optarg); break;
            case 'b': options.body_size = (size_t)atoi(optarg); break;
            case 'i': options.interface = optarg; break;
            case 'v': options.version = optarg; break;
            case 'm': options.method = optarg; break;
            default: exit(2);
        }
    }
    if (options.rate > 0) options.slots = OPEN_SLOTS;
    if (options.target_count == 0 || options.connections < 1 || options.slots < 1 ||
        options.rate < 0 || options.seconds <= 0 || options.warm_up < 0) {
        fprintf(stderr, "usage: load --to HOST:PORT --connections N --seconds S "
                        "(--outstanding N | --rate CALLS_PER_SECOND) [--warm-up S]\n");
        exit(2);
    }
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    build_frame();
    epoll = epoll_create1(0);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    if (!connections) fail("memory");
    for (int index = 0; index < options.connections; index++)
        open_connection(&connections[index], index);
    run(connections);
    print_results();
    return 0;
}
