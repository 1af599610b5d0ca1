package statesocket

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/pkg/errors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

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
	return &Client{State: state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn), opts...)), conn: conn}, nil
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
