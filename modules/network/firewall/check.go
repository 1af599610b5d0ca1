package firewall

// Found is the result of a check.
type Found struct {
	// Drift says how the tables differ from those applied, empty when they don't.
	Drift string
	// Fingerprint is the one to check with next time: that of before, or with
	// what is known now, so that the next check costs less.
	Fingerprint Fingerprint
}

// Check compares the tables that wanted is of with what is in the namespace
// now. ns is the namespace's file; empty is that of the process. node.Invalid
// when wanted isn't a fingerprint, such as one of an older croft: then apply.
func Check(ns string, wanted Fingerprint) (Found, error) {
	want, err := wanted.read()
	if err != nil {
		return Found{}, err
	}
	k, err := open(ns)
	if err != nil {
		return Found{}, err
	}
	defer k.close()
	unchanged, err := k.unchanged(want)
	if err != nil || unchanged {
		return Found{Fingerprint: wanted}, err
	}
	found, err := k.read(want.tables())
	if err != nil {
		return Found{}, err
	}
	out := Found{Drift: drift(want, found), Fingerprint: wanted}
	if out.Drift == "" {
		out.Fingerprint = found.fingerprint()
	}
	return out, nil
}

// unchanged is the cheap question: no rule of the namespace was changed since.
func (k *kernel) unchanged(want snapshot) (bool, error) {
	if want.namespace == "" || want.namespace != k.identity() {
		return false, nil
	}
	generation, err := k.generation()
	return err == nil && generation == want.generation, err
}
