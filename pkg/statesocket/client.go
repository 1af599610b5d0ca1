package statesocket

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/pkg/errors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/croft-edge/croft/pkg/privatesocket"
)

// Client is the state of a running node. Errors of its methods are the library's; Plain makes text of them.
type Client struct {
	state.State
	conn *grpc.ClientConn
}

// Dial connects to the node that serves the socket; the error's cause is privatesocket.ErrNotRunning when none does. Without client.WithDisableWatchRetry the library resumes
// watches that were cut.
func Dial(ctx context.Context, path string, opts ...client.AdapterOption) (*Client, error) {
	first, err := privatesocket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	ready := make(chan net.Conn, 1)
	ready <- first
	conn, err := grpc.NewClient("passthrough:///croftd",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case c := <-ready:
				return c, nil
			default:
				return privatesocket.Dial(ctx, path)
			}
		}))
	if err != nil {
		_ = first.Close()
		return nil, errors.Wrapf(err, "cannot open %s", path)
	}
	conn.Connect()
	return &Client{State: state.WrapCore(typed{client.NewAdapter(v1alpha1.NewStateClient(conn), opts...)}), conn: conn}, nil
}

// typed asks for protobuf alone of what it makes resources of, because nobody reads their YAML.
type typed struct{ *client.Adapter }

// Get implements state.CoreState.
func (t typed) Get(ctx context.Context, of resource.Pointer, opts ...state.GetOption) (resource.Resource, error) {
	var o state.GetOptions
	for _, opt := range opts {
		opt(&o)
	}
	return t.Adapter.Get(withProtobufOf(ctx, of, o.UnmarshalOptions), of, opts...)
}

// List implements state.CoreState.
func (t typed) List(ctx context.Context, of resource.Kind, opts ...state.ListOption) (resource.List, error) {
	var o state.ListOptions
	for _, opt := range opts {
		opt(&o)
	}
	return t.Adapter.List(withProtobufOf(ctx, of, o.UnmarshalOptions), of, opts...)
}

// Watch implements state.CoreState.
func (t typed) Watch(ctx context.Context, of resource.Pointer, out chan<- state.Event, opts ...state.WatchOption) error {
	var o state.WatchOptions
	for _, opt := range opts {
		opt(&o)
	}
	return t.Adapter.Watch(withProtobufOf(ctx, of, o.UnmarshalOptions), of, out, opts...)
}

// WatchKind implements state.CoreState.
func (t typed) WatchKind(ctx context.Context, of resource.Kind, out chan<- state.Event, opts ...state.WatchKindOption) error {
	return t.Adapter.WatchKind(withProtobufOf(ctx, of, unmarshaling(opts)), of, out, opts...)
}

// WatchKindAggregated implements state.CoreState.
func (t typed) WatchKindAggregated(ctx context.Context, of resource.Kind, out chan<- []state.Event, opts ...state.WatchKindOption) error {
	return t.Adapter.WatchKindAggregated(withProtobufOf(ctx, of, unmarshaling(opts)), of, out, opts...)
}

func unmarshaling(opts []state.WatchKindOption) state.UnmarshalOptions {
	var o state.WatchKindOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o.UnmarshalOptions
}

// withProtobufOf asks the node for protobuf alone, unless it is read as text: by choice, or because this process doesn't know the type.
func withProtobufOf(ctx context.Context, of resource.Kind, how state.UnmarshalOptions) context.Context {
	if _, err := protobuf.CreateResource(of.Type()); err != nil || how.SkipProtobufUnmarshal {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, specHeader, specProtobuf)
}

// Close ends the connection and its watches.
func (c *Client) Close() error { return c.conn.Close() }

// Plain is the text of a Client's error without the words of gRPC around it.
func Plain(err error) string {
	text := err.Error()
	if errors.Is(err, io.EOF) {
		return "the node has ended the stream"
	}
	if _, after, ok := strings.Cut(text, "rpc error: code = "); ok {
		if code, desc, ok := strings.Cut(after, " desc = "); ok {
			if code == "Unavailable" {
				return "the node has closed the connection (" + desc + ")"
			}
			return desc
		}
	}
	return text
}
