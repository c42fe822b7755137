/* An open-loop load generator for unary gRPC calls; it prints one JSON object.
 *
 *   grpc_load --to HOST:PORT --connections 50 --rate 2000 --seconds 10 [--warm-up 1]
 *
 * Calls start at fixed times whatever the other side does, and latency counts from the intended
 * start to the end of the trailers, so a stall is charged to every call that should have started
 * during it. Connections take turns.
 *
 * Every reply is checked: :status 200, one whole message, grpc-status 0, no reset.
 */
#define _GNU_SOURCE
#include <sys/timerfd.h>

#include "histogram.h"
#include "http2.h"

/* A call above OPEN_CALLS on its connection is counted as skipped: the other side is that many
 * calls behind by then. */
enum { OPEN_CALLS = 1024, BODY_SIZE = 249, STREAM_WINDOW = 1 << 20 };

#define SECOND INT64_C(1000000000)
#define DRAIN_TIME (2 * SECOND) /* how long replies are awaited after the last call */

struct call {
    int64_t start_ns; /* the intended start */
    bool has_status, has_grpc_status;
    size_t sent, received;
    uint8_t prefix[PREFIX_SIZE];
};

struct connection {
    struct link link;
    uint32_t outstanding;
};

static struct {
    struct sockaddr_in target;
    const char *authority;
    int connections;
    double rate, seconds, warm_up;
} options = {.connections = 50, .rate = 2000, .seconds = 3, .warm_up = 1};

static struct {
    uint64_t calls, status, reset, connection, skipped, lost;
    struct histogram latency;
} results;

static uint8_t body[BODY_SIZE];
static struct request request;
static uint64_t outstanding;
static int64_t measure_from, measure_until;
static int epoll;

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *at, size_t space,
                         uint32_t *flags, nghttp2_data_source *source, void *context) {
    (void)session, (void)stream_id, (void)context;
    struct call *call = source->ptr;
    size_t size = sizeof body - call->sent;
    if (size > space) size = space;
    memcpy(at, body + call->sent, size);
    call->sent += size;
    if (call->sent == sizeof body) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

/* Queues one call; false when too many are outstanding on the connection. */
static bool start_call(struct connection *connection, int64_t start_ns) {
    if (connection->link.fd < 0 || connection->outstanding == OPEN_CALLS) return false;
    struct call *call = calloc(1, sizeof *call);
    if (!call) fail("memory");
    call->start_ns = start_ns;
    nghttp2_data_provider source = {.read_callback = read_body, .source.ptr = call};
    if (nghttp2_submit_request(connection->link.session, NULL, request.fields, request.count,
                               &source, call) < 0)
        fail("request");
    connection->outstanding++;
    outstanding++;
    return true;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context) {
    (void)flags, (void)context;
    struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!call) return 0;
    if (is_field(name, name_size, ":status"))
        call->has_status = is_field(value, value_size, "200");
    else if (is_field(name, name_size, "grpc-status"))
        call->has_grpc_status = is_field(value, value_size, "0");
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *context) {
    (void)flags, (void)context;
    struct call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    for (size_t at = 0; call && at < size && call->received + at < PREFIX_SIZE; at++)
        call->prefix[call->received + at] = data[at];
    if (call) call->received += size;
    return 0;
}

/* Errors count from the first call on; successes only inside the measured time. */
static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context) {
    struct connection *connection = context;
    struct call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!call) return 0;
    connection->outstanding--;
    outstanding--;
    size_t announced = PREFIX_SIZE + get_u32(call->prefix + 1);
    bool is_whole = call->received >= PREFIX_SIZE && call->received == announced;
    if (code != 0)
        results.reset++;
    else if (!call->has_status || !call->has_grpc_status || !is_whole)
        results.status++;
    else if (call->start_ns >= measure_from && call->start_ns < measure_until) {
        results.calls++;
        record(&results.latency, now_ns() - call->start_ns);
    }
    free(call);
    return 0;
}

static void fail_connection(struct connection *connection) {
    results.connection++;
    results.lost += connection->outstanding;
    outstanding -= connection->outstanding;
    connection->outstanding = 0;
    close_link(&connection->link);
}

static void open_connection(struct connection *connection) {
    nghttp2_session_callbacks *callbacks;
    struct link *link = &connection->link;
    open_link(link, connect_to(&options.target));
    if (nghttp2_session_callbacks_new(&callbacks) != 0) fail("memory");
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&link->session, callbacks, connection) != 0) fail("memory");
    nghttp2_session_callbacks_del(callbacks);
    open_session(link->session, STREAM_WINDOW);
    watch(epoll, EPOLL_CTL_ADD, link->fd, EPOLLIN, link);
    if (!flush_link(epoll, link)) fail("first write");
}

/* Starts every call whose time has come and arms the timer for the next one. */
static void start_due_calls(struct connection *connections, int timer, int64_t begin) {
    static uint64_t started;
    int64_t now = now_ns(), due;
    for (;; started++) {
        due = begin + (int64_t)((double)started * 1e9 / options.rate);
        if (due > now || due >= measure_until) break;
        struct connection *connection = &connections[started % (uint64_t)options.connections];
        if (!start_call(connection, due)) {
            if (due >= measure_from) results.skipped++;
        } else if (!flush_link(epoll, &connection->link)) {
            fail_connection(connection);
        }
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
    start_due_calls(connections, timer, begin);
    for (int64_t now = begin; now < measure_until || outstanding > 0; now = now_ns()) {
        if (now >= measure_until + DRAIN_TIME) break;
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, 10);
        for (int index = 0; index < ready; index++) {
            struct connection *connection = events[index].data.ptr;
            if (!connection) {
                start_due_calls(connections, timer, begin);
                continue;
            }
            if (connection->link.fd < 0) continue;
            bool is_readable = events[index].events & ~(uint32_t)EPOLLOUT;
            if ((is_readable && !read_link(&connection->link)) ||
                !flush_link(epoll, &connection->link))
                fail_connection(connection);
        }
    }
    results.lost += outstanding;
}

static void print_results(void) {
    printf("{\"mode\": \"open\", \"connections\": %d, \"rate\": %.1f, \"seconds\": %.3f, "
           "\"body_bytes\": %d, \"calls\": %lu, ",
           options.connections, options.rate, options.seconds, BODY_SIZE, results.calls);
    printf("\"errors\": {\"status\": %lu, \"reset\": %lu, \"connection\": %lu, \"skipped\": %lu, "
           "\"lost\": %lu}, \"latency_us\": ",
           results.status, results.reset, results.connection, results.skipped, results.lost);
    print_latency(&results.latency);
    printf(", \"cpu_seconds\": %.3f}\n", cpu_seconds());
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"to", required_argument, NULL, 't'},      {"connections", required_argument, NULL, 'c'},
        {"rate", required_argument, NULL, 'r'},    {"seconds", required_argument, NULL, 's'},
        {"warm-up", required_argument, NULL, 'w'}, {0}};
    int option;
    while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
        switch (option) {
            case 't': options.target = parse_address(options.authority = optarg); break;
            case 'c': options.connections = atoi(optarg); break;
            case 'r': options.rate = atof(optarg); break;
            case 's': options.seconds = atof(optarg); break;
            case 'w': options.warm_up = atof(optarg); break;
            default: exit(2);
        }
    }
    if (!options.authority || options.connections < 1 || options.rate <= 0 ||
        options.seconds <= 0 || options.warm_up < 0) {
        fprintf(stderr, "usage: grpc_load --to HOST:PORT --connections N --rate CALLS_PER_SECOND "
                        "--seconds S [--warm-up S]\n");
        exit(2);
    }
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    request = new_request(options.authority, "/org.example.Greeter/sayHello");
    add_field(&request, "grpc-timeout", "3S");
    put_u32(body + 1, BODY_SIZE - PREFIX_SIZE);
    memset(body + PREFIX_SIZE, 'x', BODY_SIZE - PREFIX_SIZE);
    epoll = epoll_create1(0);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    if (!connections) fail("memory");
    for (int index = 0; index < options.connections; index++)
        open_connection(&connections[index]);
    run(connections);
    print_results();
    return 0;
}
