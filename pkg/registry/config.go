package registry

import (
	"cmp"
	"crypto/tls"
	"time"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
)

// Config says how registries are asked.
type Config struct {
	// Dialer makes all connections; TLS is for registries with a private
	// authority, nil is this machine's.
	Dialer *dial.Dialer
	TLS    *tls.Config
	// PlainHTTP are the HOST:PORT of registries that are asked without TLS.
	PlainHTTP []string
	// Silence is how long a registry may send nothing.
	Silence time.Duration
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	switch {
	case c.Dialer == nil:
		return node.Errorf(node.Invalid, "cannot use the registries' settings: Dialer is missing")
	case c.Silence < 0:
		return node.Errorf(node.Invalid, "cannot use the registries' settings: Silence is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Silence = cmp.Or(c.Silence, fetch.DefaultSilence)
	return c
}
