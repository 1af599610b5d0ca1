package firewall

import "github.com/croft-edge/croft/pkg/node"

// Applied is a record of applied rules: the digest of the request to the kernel, and
// the fingerprint of the resulting tables.
type Applied struct {
	Digest      string      `json:"digest"`
	Fingerprint Fingerprint `json:"fingerprint"`
}

// Check compares the rules in a namespace with the record, and with the wanted
// rules, which have that digest. drift is empty when they are the same. The record
// that it returns replaces a.
func (a Applied) Check(namespace, wanted string) (now Applied, drift string, err error) {
	if a.Fingerprint == "" {
		return a, "its rules aren't known", nil
	}
	if a.Digest != wanted {
		return a, "its rules are older than what they are for", nil
	}
	found, err := Check(namespace, a.Fingerprint)
	if node.KindOf(err) == node.Invalid {
		return a, "its rules are of another version", nil
	}
	if err != nil {
		return a, "", err
	}
	a.Fingerprint = found.Fingerprint
	return a, found.Drift, nil
}
