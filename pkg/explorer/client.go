package explorer

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// DefaultTimeout is how long one call may take, beside a long poll's wait.
const DefaultTimeout = 30 * time.Second

// Signer signs writes in a role. Sign may be a call to another process.
type Signer struct {
	Role Role
	// ID is the base58 of the key's public half.
	ID   string
	Sign func(message []byte) ([]byte, error)
}

// KeySigner signs with a key in memory.
func KeySigner(role Role, key sign.KeyPair) *Signer {
	return &Signer{Role: role, ID: key.ID(), Sign: func(m []byte) ([]byte, error) { return key.Sign(m), nil }}
}

// Config is what a client needs.
type Config struct {
	// URL of the explorer: http or https, a host, and perhaps a path.
	URL string
	// Signer is needed for registrations, heartbeats and farms only.
	Signer *Signer
	// Timeout of one call (0: DefaultTimeout), beside a long poll's wait.
	Timeout time.Duration
	// UserAgent is sent with each request.
	UserAgent string
	// Transport replaces the client's own, for tests and TLS settings.
	Transport http.RoundTripper
	// Now is the clock (nil: time.Now).
	Now func() time.Time
}

// Validate checks the configuration.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return node.Errorf(node.Invalid, "cannot use explorer %q: it must be http://HOST[:PORT] or https://HOST[:PORT]", c.URL)
	}
	if c.Timeout < 0 {
		return node.Errorf(node.Invalid, "cannot use timeout %s: it must not be negative", c.Timeout)
	}
	if c.Signer != nil && (c.Signer.ID == "" || c.Signer.Sign == nil || (c.Signer.Role != RoleNode && c.Signer.Role != RoleUser)) {
		return node.Errorf(node.Invalid, "cannot use signer: it needs a role, an ID and a Sign function")
	}
	return nil
}

// Client talks to one explorer, by resource: its nodes, farms, reservations and tunnels. A caller
// that needs one of these takes only that part. Errors carry a node.Kind: Transient for the
// network, 5xx and malformed answers; Busy when the explorer asks to slow down; Invalid, Refused,
// NotExist and Exist are final. It is safe for many goroutines.
type Client struct {
	NodeClient
	FarmClient
	ReservationClient
	TunnelClient

	connection *connection
}

// NewClient makes a client; it doesn't connect.
func NewClient(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.UserAgent == "" {
		c.UserAgent = "croft"
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	to := newConnection(c)
	return &Client{NodeClient{to}, FarmClient{to}, ReservationClient{to}, TunnelClient{to}, to}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.connection.http.CloseIdleConnections() }

// Info asks the explorer about itself.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var out Info
	k := call{what: "ask the explorer for its state", path: "/info"}
	if _, err := c.connection.get(ctx, k, &out); err != nil {
		return Info{}, err
	}
	if out.Epoch == "" || out.Time.IsZero() {
		return Info{}, garbage(k.what, "it has no epoch or no time")
	}
	return out, nil
}
