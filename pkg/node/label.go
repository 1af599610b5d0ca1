package node

import "strings"

// hashLength is the length of a reservation's hash in hex digits.
const hashLength = 64

// Claim is a caller's right to an object that may be on the node already. The
// explorer assigns IDs, the user determines a hash: so an object belongs to a hash.
type Claim struct {
	// Hash is the reservation's (workload.Hash.Hex); empty for the node's own
	// objects.
	Hash string
	// AdoptUnlabelled lets the caller adopt objects without a hash, too.
	AdoptUnlabelled bool
}

// Adopts reports whether the caller may adopt an object with the hash have.
func (c Claim) Adopts(have string) bool {
	return have == c.Hash || have == "" && c.AdoptUnlabelled
}

// Check returns Exist unless the caller may adopt an object with the hash have, and
// Invalid when the claim's own hash isn't one. what names the operation, such as
// "create filesystem 7-1".
func (c Claim) Check(what, have string) error {
	if err := c.Valid(what); err != nil {
		return err
	}
	if !c.Adopts(have) {
		return Errorf(Exist, "cannot %s: it exists and isn't this reservation's", what)
	}
	return nil
}

// Valid returns Invalid when the claim's hash isn't one.
func (c Claim) Valid(what string) error {
	if c.Hash == "" || len(c.Hash) == hashLength && strings.Trim(c.Hash, "0123456789abcdef") == "" {
		return nil
	}
	return Errorf(Invalid, "cannot %s: Hash is %.80q, must be empty or %d of 0-9 and a-f", what, c.Hash, hashLength)
}
