package firewall

// Found is the result of a check.
type Found struct {
	// Drift says how the tables differ from those applied, empty when they don't.
	Drift string
	// Fingerprint is the one to check with next time: the same as before, or with
	// the kernel's present generation, so that the next check costs less.
	Fingerprint Fingerprint
}

// Check compares the tables in wanted with the namespace's present ones. ns is
// the namespace's file; empty means the process's namespace. node.Invalid when
// wanted can't be read, such as an older croft's: then apply.
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
