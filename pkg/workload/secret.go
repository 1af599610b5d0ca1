package workload

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/sign"
)

// MaxSecret is the size of a secret in bytes.
const MaxSecret = 64 << 10

// Decrypt opens a sealed box that was made for the node: the identity
// module's Decrypt, or a key pair's Open.
type Decrypt func(box []byte) ([]byte, error)

// SealSecret seals a secret to a node, for one field of data of one type by
// one user, in the hex form that data holds. The path is the field's in data:
// "password", "secret_env.TOKEN", "net_resources[0].wg_private_key".
func SealSecret(nodeID, user string, t Type, path string, secret []byte) (string, error) {
	if len(secret) > MaxSecret {
		return "", errors.Errorf("cannot seal secret %s: it has %d bytes, at most %d are allowed", path, len(secret), MaxSecret)
	}
	plain := secretBinding(user, t, path)
	plain = appendLP(plain, secret)
	box, err := sign.Seal(nodeID, plain)
	if err != nil {
		return "", errors.Wrapf(err, "cannot seal secret %s", path)
	}
	return hex.EncodeToString(box), nil
}

// OpenSecret opens a box made by SealSecret. A box made for another user, type
// or field is refused: somebody copied it.
func OpenSecret(decrypt Decrypt, user string, t Type, path, sealed string) ([]byte, error) {
	plain, err := openBox(decrypt, sealed)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open secret %s", path)
	}
	if !strings.HasPrefix(string(plain), domainSecret) {
		return nil, errors.Errorf("cannot open secret %s: its box isn't bound to a user and a field", path)
	}
	rest, ok := bytes.CutPrefix(plain, secretBinding(user, t, path))
	if !ok {
		return nil, errors.Errorf("cannot open secret %s: its box was made for another user, type or field", path)
	}
	if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) != uint64(len(rest)-4) {
		return nil, errors.Errorf("cannot open secret %s: its length is wrong", path)
	}
	return rest[4:], nil
}

// OpenSecretV1 opens a box of the seed's time, which is bound to nothing: anybody
// who has seen it can use it as their own. Only for data of version 1. A bound box
// is refused, or version 1 would bypass the binding.
func OpenSecretV1(decrypt Decrypt, sealed string) ([]byte, error) {
	plain, err := openBox(decrypt, sealed)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open secret")
	}
	if strings.HasPrefix(string(plain), domainSecret) {
		return nil, errors.New("cannot open secret: its box is bound to a version 2 reservation")
	}
	return plain, nil
}

func openBox(decrypt Decrypt, sealed string) ([]byte, error) {
	box, err := hex.DecodeString(sealed)
	if err != nil {
		return nil, errors.New("the box isn't hex")
	}
	if len(box) < sign.BoxOverhead {
		return nil, errors.Errorf("the box has %d bytes, must have at least %d", len(box), sign.BoxOverhead)
	}
	return decrypt(box)
}

func secretBinding(user string, t Type, path string) []byte {
	out := append([]byte{}, domainSecret...)
	out = appendLP(out, user)
	out = appendLP(out, t)
	return appendLP(out, path)
}
