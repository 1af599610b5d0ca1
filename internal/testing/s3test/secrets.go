package s3test

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// Secrets is a secret.Provider of a test, by the secrets' names.
type Secrets map[string]string

// Keys begins the names of the servers' keys in Known.
const Keys = "s3"

// Known has the keys of every server.
func Known() Secrets { return Secrets{Keys + "-access": Access, Keys + "-secret": Secret + "\n"} }

// Secret implements secret.Provider.
func (s Secrets) Secret(name string) (secret.Value, error) {
	if text, there := s[name]; there {
		return secret.New([]byte(text)), nil
	}
	return secret.Value{}, node.Errorf(node.NotExist, "cannot get secret %q: there is none of that name", name)
}
