package identity

import (
	"encoding/hex"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// seedName is the name of the secret by which the operator gives the node's seed.
const seedName = "node-seed"

// given is the key that the operator gives, nil for none. Refused or Invalid when it can't be used: no other one is used instead, as the machine would be
// another node.
func given(c config.Config) (*sign.KeyPair, error) {
	v, err := c.Secrets().Secret(seedName)
	if node.KindOf(err) == node.NotExist {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content := v.Reveal()
	if raw, err := hex.DecodeString(v.Text()); err == nil && len(raw) == sign.SeedSize {
		content = raw
	}
	seed, err := sign.DecodeSeed(content)
	if err != nil { // which isn't shown: it may quote a version
		return nil, node.Errorf(node.Invalid, "cannot use secret %q: it has %d bytes, must be a seed file as it is, %d bytes, or their %d hexadecimal digits",
			seedName, len(v.Reveal()), sign.SeedSize, 2*sign.SeedSize)
	}
	return &seed.KeyPair, nil
}
