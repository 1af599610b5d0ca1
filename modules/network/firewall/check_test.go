package firewall

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/croft-edge/croft/pkg/node"
)

func TestDriftIsSeen(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		damage, ns string
		nft        []string
		drift      string
	}{
		{"nothing", "A", nil, ""},
		{"nothing", "node", nil, ""},
		{"another table is made", "A", []string{"add table inet other"}, ""},
		{"everything is flushed", "A", []string{"flush ruleset"}, "table bridge croft is gone, table inet croft is gone"},
		{"everything is flushed", "node", []string{"flush ruleset"}, "table inet croft-12ab is gone"},
		{"a table is deleted", "A", []string{"delete table bridge croft"}, "table bridge croft is gone"},
		{"a table is deleted", "node", []string{"delete table inet croft-12ab"}, "table inet croft-12ab is gone"},
		{"a table's rules are flushed", "A", []string{"flush table inet croft"}, "chain inet croft forward was changed"},
		{"a chain is flushed", "A", []string{"flush chain inet croft forward"}, "chain inet croft forward was changed"},
		{"a rule is deleted", "A", []string{"delete rule inet croft forward handle HANDLE"}, "chain inet croft forward was changed"},
		{"a rule is deleted and added at the end", "A", []string{
			"delete rule inet croft forward handle HANDLE", "add rule inet croft forward iifname br0 oifname br0 accept",
		}, "chain inet croft forward was changed"},
		{"a rule is added", "A", []string{"add rule inet croft input accept"}, "chain inet croft input was changed"},
		{"a rule is put first", "A", []string{"insert rule bridge croft prerouting accept"}, "chain bridge croft prerouting was changed"},
		{"a rule is put first", "node", []string{"insert rule inet croft-12ab forward accept"}, "chain inet croft-12ab forward was changed"},
		{"a policy is changed", "A", []string{"add chain inet croft forward { policy accept ; }"}, "chain inet croft forward was changed"},
		{"a chain is added", "A", []string{"add chain inet croft more { type filter hook forward priority -1 ; }"}, "chain inet croft more was added"},
		{"an element is removed", "A", []string{"delete element bridge croft addresses4 { m1 . 10.1.1.2 }"}, "set bridge croft addresses4 was changed"},
		{"an element is added", "A", []string{"add element bridge croft addresses4 { m1 . 10.1.1.3 }"}, "set bridge croft addresses4 was changed"},
		{"an element is replaced", "A", []string{
			"delete element bridge croft addresses4 { m1 . 10.1.1.2 }", "add element bridge croft addresses4 { m1 . 10.1.1.9 }",
		}, "set bridge croft addresses4 was changed"},
		{"a range is opened", "node", []string{"add element inet croft-12ab reach4 { 10.99.0.0/16 }"}, "set inet croft-12ab reach4 was changed"},
		{"an exception is added", "node", []string{"add element inet croft-12ab reach4-port { 10.1.0.0/16 . 22 }"}, "set inet croft-12ab reach4-port was changed"},
		{"a set is flushed", "node", []string{"flush set inet croft-12ab reach6"}, "set inet croft-12ab reach6 was changed"},
		{"a set is added", "A", []string{"add set inet croft more { type ipv4_addr ; }"}, "set inet croft more was added"},
		{"a table sleeps", "A", []string{"add table inet croft { flags dormant ; }"}, "table inet croft was changed"},
		{"an element is removed and comes back", "A", []string{
			"delete element bridge croft addresses4 { m1 . 10.1.1.2 }", "add element bridge croft addresses4 { m1 . 10.1.1.2 }",
		}, ""},
	} {
		t.Run(c.damage+" in "+c.ns, func(t *testing.T) {
			n := w.ns[c.ns]
			tables := nodeRules().tables()
			if c.ns == "A" {
				tables = w.rulesA().tables()
			}
			f := w.apply(c.ns, tables)
			for _, command := range c.nft {
				n.Run("nft", strings.ReplaceAll(command, "HANDLE", handle(n.Run("nft", "-a", "list ruleset"))))
			}
			found, err := Check(n.Path(), f)
			if err != nil || !strings.Contains(found.Drift, c.drift) || (c.drift == "") != (found.Drift == "") {
				t.Fatalf("drift is %q, %v, want %q", found.Drift, err, c.drift)
			}
			// It is seen until somebody puts it right.
			if again, err := Check(n.Path(), found.Fingerprint); err != nil || again.Drift != found.Drift {
				t.Errorf("the second time drift is %q, %v", again.Drift, err)
			}
			if found, err = Check(n.Path(), w.apply(c.ns, tables)); err != nil || found.Drift != "" {
				t.Errorf("applied again drift is %q, %v", found.Drift, err)
			}
		})
	}
}

// handle is that of the rule that lets members of one network meet.
func handle(listing string) string {
	for _, line := range strings.Split(listing, "\n") {
		if strings.Contains(line, `iifname "br0" oifname "br0"`) {
			return line[strings.LastIndex(line, " ")+1:]
		}
	}
	return "none"
}

// A fingerprint holds in the namespace that it is of, whatever the generation
// of another one's rules is; and it knows after a change of others' tables that
// its own are as they were.
func TestCheapAnswersAreRight(t *testing.T) {
	w := newWorld(t)
	a := w.apply("A", w.rulesA().tables())
	w.apply("B", w.rulesA(manyPorts(1)...).tables())
	head, _, _ := strings.Cut(string(a), "\n")
	if found, err := Check(w.ns["B"].Path(), a); err != nil || found.Drift == "" {
		t.Errorf("A's fingerprint (%s) is right in B, too: %v", head, err)
	}
	w.ns["A"].Run("nft", "add table inet other")
	found, err := Check(w.ns["A"].Path(), a)
	if err != nil || found.Drift != "" || found.Fingerprint == a {
		t.Errorf("drift is %q, %v, the fingerprint is a new one: %v", found.Drift, err, found.Fingerprint != a)
	}
	k, err := open(w.ns["A"].Path())
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	for f, want := range map[Fingerprint]bool{a: false, found.Fingerprint: true} {
		s, err := f.read()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.unchanged(s); err != nil || got != want {
			t.Errorf("unchanged is %v, %v, want %v", got, err, want)
		}
	}
}

func TestInvalidFingerprints(t *testing.T) {
	w := newWorld(t)
	good := string(w.apply("A", w.rulesA().tables()))
	head, rest, _ := strings.Cut(good, "\n")
	if s, err := Fingerprint(good).read(); err != nil || string(s.fingerprint()) != good {
		t.Errorf("read and written again it is another one: %v", err)
	}
	for name, bad := range map[string]string{
		"empty":             "",
		"another version":   strings.Replace(good, fingerprintVersion, "croft-firewall-0", 1),
		"no generation":     strings.Replace(head, " ", " x", 1) + "\n" + rest,
		"no tables":         head + "\n",
		"a line of nothing": good + "\nnothing\n",
		"a line too long":   good + strings.Repeat("x ", 1000),
	} {
		if _, err := Check(w.ns["A"].Path(), Fingerprint(bad)); node.KindOf(err) != node.Invalid || len(err.Error()) > 300 {
			t.Errorf("%s: %v, must be Invalid and short", name, err)
		}
	}
}

// Others of the machine change rules of theirs for a while, as fast as they can.
func TestOthersChangeRulesMeanwhile(t *testing.T) {
	w := newWorld(t)
	mine := w.apply("A", w.rulesA().tables())
	namespace, err := os.Open(w.ns["A"].Path())
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	other, err := nftables.New(nftables.WithNetNSFd(int(namespace.Fd())), nftables.AsLasting())
	if err != nil {
		t.Fatal(err)
	}
	var changes sync.WaitGroup
	begun := make(chan struct{})
	changes.Go(func() {
		for n, end := 0, time.Now().Add(time.Second); time.Now().Before(end); n++ {
			table := other.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "others"})
			if n%2 == 1 {
				other.DelTable(table)
			}
			if err := other.Flush(); err != nil {
				t.Error(err)
			}
			if n == 0 {
				close(begun)
			}
		}
		if err := other.CloseLasting(); err != nil {
			t.Error(err)
		}
	})
	defer changes.Wait()
	<-begun
	for range 3 {
		if found, err := Check(w.ns["A"].Path(), mine); err != nil || found.Drift != "" {
			t.Errorf("drift is %q, %v", found.Drift, err)
		}
	}
}
