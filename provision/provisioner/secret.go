package provisioner

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Identity is the part of the identity module that opens boxes sealed to the node.
type Identity interface {
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
}

// OpenSecret opens a box in r's data that is sealed to the node; path is its field's, such as "secret_env.TOKEN".
// Invalid when it can't be opened, which is the user's mistake; an identity module that doesn't answer isn't.
func OpenSecret(ctx context.Context, identity Identity, r *workload.Reservation, path, sealed string) (plain []byte, err error) {
	decrypt := func(box []byte) ([]byte, error) { return identity.Decrypt(ctx, box) }
	if r.DocumentVersion() == 1 {
		plain, err = workload.OpenSecretV1(decrypt, sealed)
	} else {
		plain, err = workload.OpenSecret(decrypt, r.User, r.Type, path, sealed)
	}
	switch kind := node.KindOf(err); {
	case err == nil:
		return plain, nil
	case kind == node.Internal || kind == node.Invalid:
		return nil, node.Errorf(node.Invalid, "data.%s must be sealed to this node for this user and field: %w", path, err)
	}
	return nil, err
}
