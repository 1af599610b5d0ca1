package firewall

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Counters and handles, which the kernel sets by itself, are left out.
const (
	tableHandle = 4
	setHandle   = 16
	setCount    = 20
)

// A dump is tried until nobody changes rules meanwhile, for steadyWithin. After a few tries
// it waits a little before each: a loaded machine takes long for a dump.
const (
	steadyWithin = 5 * time.Second
	atOnce       = 5
	steadyPause  = 20 * time.Millisecond
)

// read reads the existing ones of the tables.
func (k *kernel) read(tables []part) (snapshot, error) {
	for try, began := 0, time.Now(); try <= atOnce || time.Since(began) < steadyWithin; try++ {
		if try > atOnce {
			<-time.After(steadyPause)
		}
		before, err := k.generation()
		if err != nil {
			return snapshot{}, err
		}
		out := snapshot{namespace: k.identity(), generation: before, parts: map[part]string{}}
		var failed error
		for _, t := range tables {
			if failed = k.readTable(t, out.parts); failed != nil {
				break
			}
		}
		after, err := k.generation()
		if err != nil {
			return snapshot{}, err
		}
		if before == after {
			return out, failed
		}
	}
	return snapshot{}, node.Errorf(node.Transient, "cannot read %s: the rules of its namespace don't stop to change", tables[0])
}

func familyOf(t part) nftables.TableFamily {
	if t.family == "bridge" {
		return nftables.TableFamilyBridge
	}
	return nftables.TableFamilyINet
}

// readTable adds a table and its parts to into, or nothing when it is gone.
func (k *kernel) readTable(t part, into map[part]string) error {
	family := familyOf(t)
	answers, err := k.ask(unix.NFT_MSG_GETTABLE, 0, family, t.table)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return wrap(err, "cannot read "+t.String())
	}
	sum := sha256.New()
	for _, m := range answers {
		sum.Write(lasting(m, unix.NFTA_TABLE_USE, tableHandle))
	}
	into[t] = short(sum.Sum(nil))
	if err := k.readChains(t, into); err != nil {
		return err
	}
	return k.readSets(t, into)
}

func (k *kernel) readChains(t part, into map[part]string) error {
	family := familyOf(t)
	chains, err := k.ask(unix.NFT_MSG_GETCHAIN, netlink.Dump, family)
	if err != nil {
		return wrap(err, "cannot read the chains of "+t.String())
	}
	rules, err := k.ask(unix.NFT_MSG_GETRULE, netlink.Dump, family, t.table)
	if err != nil {
		return wrap(err, "cannot read the rules of "+t.String())
	}
	for _, m := range chains {
		attributes := attributesOf(m)
		if text(attributes, unix.NFTA_CHAIN_TABLE) != t.table || m.Data[0] != byte(family) {
			continue
		}
		name := text(attributes, unix.NFTA_CHAIN_NAME)
		sum := sha256.New()
		sum.Write(lasting(m, unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_USE, unix.NFTA_CHAIN_COUNTERS))
		for _, r := range rules {
			if text(attributesOf(r), unix.NFTA_RULE_CHAIN) == name {
				sum.Write(lasting(r, unix.NFTA_RULE_HANDLE, unix.NFTA_RULE_POSITION))
			}
		}
		into[part{"chain", t.family, t.table, name}] = short(sum.Sum(nil))
	}
	return nil
}

func (k *kernel) readSets(t part, into map[part]string) error {
	family := familyOf(t)
	sets, err := k.ask(unix.NFT_MSG_GETSET, netlink.Dump, family, t.table)
	if err != nil {
		return wrap(err, "cannot read the sets of "+t.String())
	}
	for _, m := range sets {
		name := text(attributesOf(m), unix.NFTA_SET_NAME)
		answers, err := k.ask(unix.NFT_MSG_GETSETELEM, netlink.Dump, family, t.table, name)
		if err != nil {
			return wrap(err, "cannot read set "+name+" of "+t.String())
		}
		var elements []string
		for _, a := range answers {
			elements = append(elements, elementsOf(a)...)
		}
		// The order of a hash table isn't the same twice.
		slices.Sort(elements)
		sum := sha256.New()
		sum.Write(lasting(m, setHandle, setCount))
		for _, e := range elements {
			sum.Write([]byte(e))
		}
		into[part{"set", t.family, t.table, name}] = short(sum.Sum(nil))
	}
	return nil
}

func elementsOf(m netlink.Message) []string {
	var out []string
	for _, a := range attributesOf(m) {
		if a.Type&^unix.NLA_F_NESTED != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			continue
		}
		list, err := netlink.UnmarshalAttributes(a.Data)
		if err != nil {
			continue
		}
		for _, e := range list {
			out = append(out, string(e.Data))
		}
	}
	return out
}

// lasting is a message's attributes without those that change by themselves,
// each with its type and length, so that two can't run into one another.
func lasting(m netlink.Message, changing ...uint16) []byte {
	var out []byte
	for _, a := range attributesOf(m) {
		kind := a.Type &^ unix.NLA_F_NESTED
		if slices.Contains(changing, kind) {
			continue
		}
		size := len(a.Data)
		out = append(out, byte(kind>>8), byte(kind), byte(size>>24), byte(size>>16), byte(size>>8), byte(size))
		out = append(out, a.Data...)
	}
	return out
}

// short is enough of a sum to see a change.
func short(sum []byte) string { return hex.EncodeToString(sum[:12]) }
