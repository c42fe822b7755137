package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	caseLimit = 20 * time.Second
	large     = 5_000_000
	service   = "grpc.testing.TestService"
)

// published are the cases of grpc-go itself; they end the process when something is wrong.
var published = map[string]func(context.Context, testpb.TestServiceClient, ...grpc.CallOption){
	"empty_unary":                 interop.DoEmptyUnaryCall,
	"large_unary":                 interop.DoLargeUnaryCall,
	"client_streaming":            interop.DoClientStreaming,
	"server_streaming":            interop.DoServerStreaming,
	"ping_pong":                   interop.DoPingPong,
	"empty_stream":                interop.DoEmptyStream,
	"cancel_after_begin":          interop.DoCancelAfterBegin,
	"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
	"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
	"custom_metadata":             interop.DoCustomMetadata,
	"status_code_and_message":     interop.DoStatusCodeAndMessage,
	"special_status_message":      interop.DoSpecialStatusMessage,
}

// own are cases that the published ones lack.
var own = map[string]func(context.Context, *grpc.ClientConn) error{
	"unimplemented_method": func(ctx context.Context, conn *grpc.ClientConn) error {
		interop.DoUnimplementedMethod(ctx, conn)
		return nil
	},
	"unimplemented_service": func(ctx context.Context, conn *grpc.ClientConn) error {
		interop.DoUnimplementedService(ctx, testpb.NewUnimplementedServiceClient(conn))
		return nil
	},
	"large_messages": largeMessages,
	"deadline":       deadline,
	"metadata":       repeatedMetadata,
	"gzip":           compressed,
	"parallel":       parallel,
	"health":         healthCheck,
}

// grouped names the group of the server in every call, as a Dubbo consumer does.
func grouped(group string) []grpc.DialOption {
	add := func(ctx context.Context) context.Context {
		if group == "" {
			return ctx
		}
		return metadata.AppendToOutgoingContext(ctx, "tri-service-group", group)
	}
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
			invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			return invoke(add(ctx), method, request, reply, conn, options...)
		}),
		grpc.WithStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
			open grpc.Streamer, options ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return open(add(ctx), desc, conn, method, options...)
		}),
	}
}

func runCase(address, group, name string) error {
	options := append(grouped(group),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
	)
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), caseLimit)
	defer cancel()
	if run, found := published[name]; found {
		run(ctx, testpb.NewTestServiceClient(conn))
		return nil
	}
	if run, found := own[name]; found {
		return run(ctx, conn)
	}
	return fmt.Errorf("no case %q", name)
}

func payload(size int) *testpb.Payload {
	return &testpb.Payload{Body: make([]byte, size)}
}

func parameters(interval time.Duration, sizes ...int32) []*testpb.ResponseParameters {
	var wanted []*testpb.ResponseParameters
	for _, size := range sizes {
		each := &testpb.ResponseParameters{Size: size, IntervalUs: int32(interval.Microseconds())}
		wanted = append(wanted, each)
	}
	return wanted
}

func largeMessages(ctx context.Context, conn *grpc.ClientConn) error {
	client := testpb.NewTestServiceClient(conn)
	reply, err := client.UnaryCall(ctx, &testpb.SimpleRequest{
		ResponseSize: large, Payload: payload(large),
	})
	if err != nil {
		return err
	}
	if got := len(reply.GetPayload().GetBody()); got != large {
		return fmt.Errorf("%d bytes in the reply", got)
	}
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		request := &testpb.StreamingOutputCallRequest{
			ResponseParameters: parameters(0, large), Payload: payload(large),
		}
		if err := stream.Send(request); err != nil {
			return err
		}
		reply, err := stream.Recv()
		if err != nil {
			return err
		}
		if got := len(reply.GetPayload().GetBody()); got != large {
			return fmt.Errorf("%d bytes in a response", got)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream ends with %v", err)
	}
	return nil
}

func deadline(ctx context.Context, conn *grpc.ClientConn) error {
	client := testpb.NewTestServiceClient(conn)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	stream, err := client.StreamingOutputCall(short, &testpb.StreamingOutputCallRequest{
		ResponseParameters: parameters(100*time.Millisecond, make([]int32, 50)...),
	})
	if err != nil {
		return err
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded || time.Since(begin) > 2*time.Second {
		return fmt.Errorf("after %v: %v", time.Since(begin), err)
	}
	return nil
}

func repeatedMetadata(ctx context.Context, conn *grpc.ClientConn) error {
	const initial, trailing = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"
	ctx = metadata.AppendToOutgoingContext(ctx, initial, "a, b", trailing, "\x00\xff")
	var header, trailer metadata.MD
	_, err := testpb.NewTestServiceClient(conn).UnaryCall(
		ctx, &testpb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer),
	)
	if err != nil {
		return err
	}
	if !slices.Equal(header.Get(initial), []string{"a, b"}) ||
		!slices.Equal(trailer.Get(trailing), []string{"\x00\xff"}) {
		return fmt.Errorf("header %v, trailer %v", header, trailer)
	}
	return nil
}

func compressed(ctx context.Context, conn *grpc.ClientConn) error {
	client := testpb.NewTestServiceClient(conn)
	interop.DoLargeUnaryCall(ctx, client, grpc.UseCompressor(gzip.Name))
	interop.DoPingPong(ctx, client, grpc.UseCompressor(gzip.Name))
	interop.DoClientStreaming(ctx, client, grpc.UseCompressor(gzip.Name))
	return nil
}

func parallel(ctx context.Context, conn *grpc.ClientConn) error {
	client := testpb.NewTestServiceClient(conn)
	results := make(chan error, 500)
	var group sync.WaitGroup
	for number := range cap(results) {
		group.Go(func() {
			size := int32(1 + number)
			reply, err := client.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: size})
			if err == nil && len(reply.GetPayload().GetBody()) != int(size) {
				err = fmt.Errorf("%d bytes instead of %d", len(reply.GetPayload().GetBody()), size)
			}
			results <- err
		})
	}
	group.Wait()
	close(results)
	for err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

func healthCheck(ctx context.Context, conn *grpc.ClientConn) error {
	client := healthpb.NewHealthClient(conn)
	request := &healthpb.HealthCheckRequest{Service: service}
	reply, err := client.Check(ctx, request)
	if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("Check: %v, %v", reply, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := client.Watch(ctx, request)
	if err != nil {
		return err
	}
	reply, err = watch.Recv()
	if err != nil || reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("Watch: %v, %v", reply, err)
	}
	cancel()
	if _, err = watch.Recv(); status.Code(err) != codes.Canceled {
		return fmt.Errorf("Watch ends with %v", err)
	}
	return nil
}
