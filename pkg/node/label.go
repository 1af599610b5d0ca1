package node

import "strings"

// hashLength is that of a reservation's hash in hex digits.
const hashLength = 64

// Claim is by what right a caller asks for something on the node that may be
// there already. IDs are the explorer's to give, a hash is its user's: so what
// is on the node belongs to a hash.
type Claim struct {
	// Hash is the reservation's (workload.Hash.Hex); empty for what the node
	// makes for itself.
	Hash string
	// AdoptUnlabelled says that what has no hash is the caller's too.
	AdoptUnlabelled bool
}

// Adopts reports whether what carries the hash have may be taken over.
func (c Claim) Adopts(have string) bool {
	return have == c.Hash || have == "" && c.AdoptUnlabelled
}

// Check is Exist unless what carries the hash have may be taken over, Invalid
// when the claim's own hash isn't one. what says what was asked for, such as
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

// Valid is Invalid when the hash isn't one.
func (c Claim) Valid(what string) error {
	if c.Hash == "" || len(c.Hash) == hashLength && strings.Trim(c.Hash, "0123456789abcdef") == "" {
		return nil
	}
	return Errorf(Invalid, "cannot %s: Hash is %.80q, must be empty or %d of 0-9 and a-f", what, c.Hash, hashLength)
}
