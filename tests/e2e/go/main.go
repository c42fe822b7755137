// Real gRPC peers in Go: the interop test service of grpc-go and a client with its cases.
//
//	peer server ADDRESS STREAMS    serves until SIGTERM, then finishes its calls
//	peer client ADDRESS GROUP CASE runs one case; exit code 0 when all is as expected
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
)

// messageLimit is above the largest message of any test.
const messageLimit = 64 << 20

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "server":
		streams, err := strconv.ParseUint(os.Args[3], 10, 32)
		check(err)
		serve(os.Args[2], uint32(streams))
	case len(os.Args) == 5 && os.Args[1] == "client":
		check(runCase(os.Args[2], os.Args[3], os.Args[4]))
	default:
		check(fmt.Errorf("usage: peer server ADDRESS STREAMS | peer client ADDRESS GROUP CASE"))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve takes that many streams on a connection, or any number when it is 0.
func serve(address string, streams uint32) {
	listener, err := net.Listen("tcp", address)
	check(err)
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(messageLimit), grpc.MaxConcurrentStreams(streams),
	)
	testpb.RegisterTestServiceServer(server, interop.NewTestServer())
	state := health.NewServer()
	state.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, state)
	reflection.Register(server)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		server.GracefulStop()
	}()
	fmt.Println("ready")
	check(server.Serve(listener))
}
