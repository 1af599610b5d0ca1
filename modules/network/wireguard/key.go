package wireguard

import (
	"encoding/base64"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/pkg/node"
)

// Key is a private or public Curve25519 key. Its text is base64, as in
// WireGuard's own files.
type Key [32]byte

// ParseKey reads the base64 of 32 bytes. The error doesn't quote the text: it
// may be a private key.
func ParseKey(text string) (Key, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != len(Key{}) {
		return Key{}, node.Errorf(node.Invalid, "cannot read a WireGuard key: it must be the base64 of 32 bytes")
	}
	return Key(raw), nil
}

// Public is the public key of a private one.
func (k Key) Public() Key { return Key(wgtypes.Key(k).PublicKey()) }

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k == Key{} }

func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText writes base64.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the text of MarshalText.
func (k *Key) UnmarshalText(text []byte) error {
	key, err := ParseKey(string(text))
	*k = key
	return err
}
