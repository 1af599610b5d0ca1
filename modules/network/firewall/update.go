package firewall

import (
	"reflect"
	"slices"

	"github.com/google/nftables"
)

// UpdateNetwork updates a tenant network's namespace from from's rules to to's, if the
// kernel's still match have and only ports differ. It changes only the ports' sets,
// which costs a fraction of new tables. It reports whether it did; otherwise the
// caller must use ApplyNetwork.
func UpdateNetwork(ns string, have Fingerprint, from, to Network) (Fingerprint, bool, error) {
	if err := to.Validate(); err != nil {
		return "", false, err
	}
	if !from.sameFrame(to) {
		return "", false, nil
	}
	was, err := have.read()
	if err != nil {
		return "", false, nil //nolint:nilerr // one of an older croft: apply
	}
	k, err := open(ns)
	if err != nil {
		return "", false, err
	}
	defer k.close()
	if same, err := k.unchanged(was); err != nil || !same {
		return "", false, err
	}
	table := to.bridge()
	if changed, err := k.exchange(from.bridge(), table); err != nil || !changed {
		return "", false, nil //nolint:nilerr // somebody else had a hand in it: apply
	}
	if err := k.readSets(table.part(), was.parts); err != nil {
		return "", false, nil //nolint:nilerr // see above
	}
	after, err := k.generation()
	if err != nil || after != was.generation+1 {
		return "", false, err
	}
	was.generation = after
	return was.fingerprint(), true, nil
}

// sameFrame reports whether rules are the same without their ports, which are in
// sets only.
func (n Network) sameFrame(other Network) bool {
	n.Ports, other.Ports = nil, nil
	return reflect.DeepEqual(n, other)
}

// exchange changes the elements of a table's sets, in one transaction. It
// reports whether there was anything to change.
func (k *kernel) exchange(from, to table) (changed bool, err error) {
	conn, err := k.change()
	if err != nil {
		return false, wrap(err, "cannot speak to the firewall")
	}
	defer func() { _ = conn.CloseLasting() }()
	in := &nftables.Table{Name: to.name, Family: to.family}
	for i, s := range to.sets {
		joined, err := nftables.ConcatSetType(s.keys...)
		if err != nil {
			return false, err
		}
		set := &nftables.Set{Table: in, ID: uint32(i + 1), Name: s.name, KeyType: joined, Concatenation: true}
		gone, more := without(from.sets[i].elements, s.elements), without(s.elements, from.sets[i].elements)
		changed = changed || len(gone)+len(more) > 0
		for some := range slices.Chunk(gone, elementsAtOnce) {
			if err := conn.SetDeleteElements(set, some); err != nil {
				return false, err
			}
		}
		for some := range slices.Chunk(more, elementsAtOnce) {
			if err := conn.SetAddElements(set, some); err != nil {
				return false, err
			}
		}
	}
	if !changed {
		return false, nil
	}
	if err := conn.Flush(); err != nil {
		return false, wrap(err, "cannot change the sets of "+to.part().String())
	}
	return true, nil
}

// without are the elements of all that aren't among others.
func without(all, others []nftables.SetElement) []nftables.SetElement {
	known := make(map[string]bool, len(others))
	for _, e := range others {
		known[string(e.Key)] = true
	}
	var out []nftables.SetElement
	for _, e := range all {
		if !known[string(e.Key)] {
			out = append(out, e)
		}
	}
	return out
}
