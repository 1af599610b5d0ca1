package workload

import (
	"crypto/md5"
	"crypto/sha256"

	"github.com/mr-tron/base58"
)

// netIDLength is how much of the base58 text the seed keeps.
const netIDLength = 13

// NetworkID is the seed's ID of a user's network: the first 13 characters of
// base58(md5(user name)). It is for the wire and for display only. Nothing
// separates user and name and MD5 can be collided, so two networks may share
// one: NetworkKey is what to key by.
func NetworkID(user, name string) NetID {
	sum := md5.Sum([]byte(user + name))
	return NetID(base58.Encode(sum[:])[:netIDLength])
}

// NetworkKey identifies a user's network: SHA-256 of LP(user) LP(name).
func NetworkKey(user, name string) [sha256.Size]byte {
	return sha256.Sum256(appendLP(appendLP(nil, user), name))
}

// ContainerKey identifies what a user's containers of one name are on a node:
// SHA-256 of LP("container") LP(user) LP(name). It is never a NetworkKey, whose
// text begins with a user's ID, which is longer.
func ContainerKey(user, name string) [sha256.Size]byte {
	return sha256.Sum256(appendLP(appendLP(appendLP(nil, string(TypeContainer)), user), name))
}
