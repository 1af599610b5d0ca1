package fetch

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// DefaultSilence is Config.Silence when it is 0.
	DefaultSilence = 30 * time.Second
	// LongestExchange bounds one request with its answer. It is that long for large files over slow links; who reads the
	// answer holds it to a speed.
	LongestExchange = 24 * time.Hour
)

// Config says how servers are asked.
type Config struct {
	// Dialer makes all connections; TLS is for servers with a private
	// authority, nil is this machine's.
	Dialer *dial.Dialer
	TLS    *tls.Config
	// PlainHTTP are the HOST or HOST:PORT, as URLs have them, of servers that are asked without TLS.
	PlainHTTP []string
	// Silence is how long a server may send nothing; 0 is DefaultSilence.
	Silence time.Duration
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case c.Dialer == nil:
		return node.Errorf(node.Invalid, "cannot use the settings of servers: Dialer is missing")
	case c.Silence < 0:
		return node.Errorf(node.Invalid, "cannot use the settings of servers: Silence is negative")
	}
	return nil
}

// Patience is how long a server may send nothing, with the default.
func (c Config) Patience() time.Duration { return cmp.Or(c.Silence, DefaultSilence) }

// Plain are the servers that are asked without TLS.
func (c Config) Plain() map[string]bool {
	plain := map[string]bool{}
	for _, host := range c.PlainHTTP {
		plain[host] = true
	}
	return plain
}

// Client returns an HTTP client for these servers, whose user closes its idle connections. It follows redirects as
// pkg/dial does.
func (c Config) Client() (*http.Client, error) {
	client, err := c.Dialer.HTTPClient(dial.HTTPConfig{Timeout: LongestExchange, HeaderTimeout: c.Patience(), TLS: c.TLS})
	if err != nil {
		return nil, err
	}
	client.Transport = Guard{Next: client.Transport, Plain: c.Plain(), Silence: c.Patience()}
	return client, nil
}
