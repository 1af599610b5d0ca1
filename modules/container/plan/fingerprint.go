package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
)

// form counts up when a new croft makes another container of the same specification.
const form = 1

// fingerprinted is the part of a specification that its fingerprint covers. Fields that newer
// versions of croft have added are left out while they are empty: an upgrade must not make
// containers anew. The owner's claim is always left out, and so are the values of secret
// variables: fingerprints are on disk, and short secrets could be guessed from them.
type fingerprinted struct {
	node.ContainerSpec
	Secrets         node.Env `json:",omitempty"`
	SecretNames     []string `json:",omitempty"`
	NoCapabilities  bool     `json:",omitempty"`
	ReadOnly        bool     `json:",omitempty"`
	NonRoot         bool     `json:",omitempty"`
	Hash            string   `json:",omitempty"`
	AdoptUnlabelled bool     `json:",omitempty"`
}

// fingerprint is the same for containers of the same specification, image and init.
func fingerprint(s node.ContainerSpec, digest, initProgram string) (string, error) {
	alike := s // nil and empty mean the same
	alike.Entrypoint, alike.DNS, alike.Terminal, alike.Names = orNil(s.Entrypoint), orNil(s.DNS), orNil(s.Terminal), orNil(s.Names)
	if len(s.Env) == 0 {
		alike.Env = nil
	}
	if len(s.Mounts) == 0 {
		alike.Mounts = nil
	}
	raw, err := json.Marshal(struct {
		Form   int
		Spec   fingerprinted
		Digest string
		Init   string
	}{form, fingerprinted{ContainerSpec: alike, SecretNames: slices.Sorted(maps.Keys(s.Secrets)), NoCapabilities: s.NoCapabilities, ReadOnly: s.ReadOnly, NonRoot: s.NonRoot}, digest, initProgram})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

func orNil(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}
