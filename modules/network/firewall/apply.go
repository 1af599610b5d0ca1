package firewall

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// elementsAtOnce fit the 64 KiB that the kernel takes in one attribute.
const elementsAtOnce = 500

// attempts bounds the replace-and-verify rounds; pause is the longest wait before the
// second round, and grows, so that processes that change rules at once don't keep colliding.
const (
	attempts = 30
	pause    = 20 * time.Millisecond
)

// ApplyNode replaces the rules of the node's namespace with n's. ns is the
// namespace's file; empty means the process's namespace.
func ApplyNode(ns string, n Node) (Fingerprint, error) {
	if err := n.Validate(); err != nil {
		return "", err
	}
	return apply(ns, n.tables())
}

// ApplyNetwork replaces the rules of a tenant network's namespace with n's. ns
// is the namespace's file; empty means the process's namespace.
func ApplyNetwork(ns string, n Network) (Fingerprint, error) {
	if err := n.Validate(); err != nil {
		return "", err
	}
	return apply(ns, n.tables())
}

func apply(ns string, tables []table) (Fingerprint, error) {
	k, err := open(ns)
	if err != nil {
		return "", err
	}
	defer k.close()
	var names []part
	for _, t := range tables {
		names = append(names, t.part())
	}
	for attempt := range attempts {
		if attempt > 0 {
			<-time.After(rand.N(pause * time.Duration(attempt)))
		}
		before, err := k.generation()
		if err != nil {
			return "", err
		}
		if err := k.replace(tables); err != nil {
			return "", err
		}
		found, err := k.read(names)
		if err != nil {
			return "", err
		}
		// One further: nobody else had a hand in it.
		if found.generation == before+1 {
			return found.fingerprint(), nil
		}
	}
	return "", node.Errorf(node.Transient, "cannot apply %s: something else changes the rules of its namespace all the time", names[0])
}

func (t table) part() part {
	if t.family == nftables.TableFamilyBridge {
		return part{kind: "table", family: "bridge", table: t.name}
	}
	return part{kind: "table", family: "inet", table: t.name}
}

// replace puts the tables in the place of those of the same name, in one
// transaction: until it is done the old rules hold, from then on the new ones.
func (k *kernel) replace(tables []table) error {
	conn, err := k.change()
	if err != nil {
		return wrap(err, "cannot speak to the firewall")
	}
	defer func() { _ = conn.CloseLasting() }()
	for _, t := range tables {
		made := &nftables.Table{Name: t.name, Family: t.family}
		// Added first, so that there is something to delete.
		conn.AddTable(made)
		conn.DelTable(made)
		conn.AddTable(made)
		if err := addSets(conn, made, t.sets); err != nil {
			return wrap(err, "cannot apply "+t.part().String())
		}
		addChains(conn, made, t.chains)
	}
	if err := conn.Flush(); err != nil {
		return wrap(err, "cannot apply "+tables[0].part().String())
	}
	return nil
}

func addSets(conn *nftables.Conn, t *nftables.Table, sets []set) error {
	for i, s := range sets {
		// An ID of our own: the library's counter isn't for two at a time.
		made := &nftables.Set{Table: t, ID: uint32(i + 1), Name: s.name, Interval: s.interval, KeyType: s.keys[0]}
		if len(s.keys) > 1 {
			joined, err := nftables.ConcatSetType(s.keys...)
			if err != nil {
				return err
			}
			made.KeyType, made.Concatenation = joined, true
		}
		if err := conn.AddSet(made, nil); err != nil {
			return err
		}
		for some := range slices.Chunk(s.elements, elementsAtOnce) {
			if err := conn.SetAddElements(made, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// addChains adds all chains before the first rule, which may lead to any.
func addChains(conn *nftables.Conn, t *nftables.Table, chains []chain) {
	made := make([]*nftables.Chain, len(chains))
	for i, c := range chains {
		made[i] = &nftables.Chain{Name: c.name, Table: t}
		if b := c.base; b != nil {
			made[i].Type, made[i].Hooknum, made[i].Priority, made[i].Policy = b.kind, b.hook, b.priority, &b.policy
		}
		conn.AddChain(made[i])
	}
	for i, c := range chains {
		for _, r := range c.rules {
			conn.AddRule(&nftables.Rule{Table: t, Chain: made[i], Exprs: r})
		}
	}
}

// RemoveNode removes the rules of the node's namespace. node.NotExist when
// there are none of that table.
func RemoveNode(ns, name string) error {
	k, err := open(ns)
	if err != nil {
		return err
	}
	defer k.close()
	conn, err := k.change()
	if err != nil {
		return wrap(err, "cannot speak to the firewall")
	}
	defer func() { _ = conn.CloseLasting() }()
	conn.DelTable(&nftables.Table{Name: name, Family: nftables.TableFamilyINet})
	err = conn.Flush()
	if errors.Is(err, unix.ENOENT) {
		return node.Errorf(node.NotExist, "cannot remove table inet %s: there is none", name)
	}
	if err != nil {
		return wrap(err, "cannot remove table inet "+name)
	}
	return nil
}
