package settings

import (
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/guest/cmdline"
)

// TestPrecedence holds that the command line overrides the file, and the image both.
func TestPrecedence(t *testing.T) {
	line := cmdline.Parse("quiet croft.slot=b croft.trial croft.explorer=http://10.0.2.2:81 croft.farm=7 croft.disks=empty croft.console=shell")
	s, faults := Read(line, []byte("explorer: https://explorer.example.org\nallow-users: [alice, bob]\nfarm-id: 3\ndisks: /dev/vdb\nntp-servers: [192.0.2.1, ntp.example.org]\nupgrade-every: 5m\n"))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := Settings{
		Node:   Node{EmptyDisks: true, Shell: true, TimeServers: []string{"192.0.2.1", "ntp.example.org"}, UpgradeEvery: 5 * time.Minute},
		Croftd: map[string]string{"explorer": "http://10.0.2.2:81", "allow-users": "alice,bob", "farm-id": "7"},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	raw, err := s.File(map[string]string{"explorer": "https://image.example.org", "bus": "unix:///run/redis.sock"})
	if text := string(raw); err != nil || text != "allow-users: \"alice,bob\"\nbus: \"unix:///run/redis.sock\"\nexplorer: \"https://image.example.org\"\nfarm-id: \"7\"\n" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestStaticNetwork(t *testing.T) {
	s, faults := Read(cmdline.Parse("croft.address=192.0.2.7/24,2001:db8::7/64 croft.gateway=192.0.2.1 croft.dns=192.0.2.53,2001:db8::53 croft.interfaces=eth0"), nil)
	n := s.Node
	if len(faults) > 0 || len(n.Addresses) != 2 || n.Addresses[1] != netip.MustParsePrefix("2001:db8::7/64") || len(n.Gateways) != 1 || len(n.DNS) != 2 || n.Interfaces[0] != "eth0" {
		t.Errorf("%+v, %v", n, faults)
	}
}

// TestFaults holds that each fault is told with its source, and that the rest is there all the same.
func TestFaults(t *testing.T) {
	for value, want := range map[string]string{
		"disks=sda":                         "cannot use disks=sda",
		"disks=/dev/../etc":                 "paths below /dev",
		"wipe-disk=empty":                   "wipe-disk",
		"address=192.0.2.7":                 "lengths",
		"gateway=here":                      "IP addresses",
		"dns=0.0.0.0":                       "IP addresses",
		"config=yes":                        "none",
		"console=root":                      "shell",
		"upgrade=ftp://x":                   "http",
		"upgrade=https://x/?y":              "folder",
		"upgrade-every=1s":                  "at least 10s",
		"interfaces=a/b":                    "interfaces",
		"ntp-servers=a;b":                   "host:port",
		"test=/x":                           "label",
		"state=XYZ":                         "UUID",
		"bus=unix:///x":                     "sets it itself",
		"state-dir=/x":                      "sets it itself",
		"disk=/dev/sda":                     "sets it itself",
		"disks=" + strings.Repeat("x", 300): "…",
	} {
		s, faults := Read(cmdline.Parse("croft.farm=7 croft."+value), nil)
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), want) || !strings.Contains(faults[0].Error(), "the kernel's command line") {
			t.Errorf("%s: %v, want %q", value, faults, want)
		}
		if s.Croftd["farm-id"] != "7" {
			t.Errorf("%s: the farm is lost: %v", value, s.Croftd)
		}
	}
	for text, want := range map[string]string{
		"[1, 2]":                                 "must be a mapping",
		"a: {b: c}":                              "line 1: a",
		"a: [[b]]":                               "line 1: a",
		"a: ['b,c']":                             "commas",
		"a: 1\na: 2":                             "twice",
		"a: [":                                   "croft.yaml",
		"disks: 7":                               "in the file croft.yaml",
		strings.Repeat("#", MostFile) + "\na: 1": "larger",
	} {
		if _, faults := Read(nil, []byte(text)); len(faults) != 1 || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, faults, want)
		}
	}
	for _, text := range []string{"", "\n", "# nothing\n", "~"} {
		if s, faults := Read(nil, []byte(text)); len(faults) > 0 || len(s.Croftd) > 0 {
			t.Errorf("%q: %v, %v", text, s, faults)
		}
	}
}

// TestNoNameTwice holds that no setting is both init's and fixed.
func TestNoNameTwice(t *testing.T) {
	names := map[string]bool{}
	for _, name := range append(append(Names(), fixed()...), loader()...) {
		if names[name] {
			t.Errorf("%s is there twice", name)
		}
		names[name] = true
	}
	for alias := range maps.Keys(aliases()) {
		if names[alias] {
			t.Errorf("the alias %s is a name too", alias)
		}
	}
}

// TestTheDocumentHasAllSettings compares the table in docs/boot.md with the program.
func TestTheDocumentHasAllSettings(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/boot.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(raw), "<!-- boot settings:")
	table, _, ends := strings.Cut(rest, "<!-- /boot settings -->")
	if !begins || !ends {
		t.Fatal("docs/boot.md has no table of settings")
	}
	var names []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for name := range strings.SplitSeq(cell, ", ") {
			names = append(names, strings.Trim(name, "`"))
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, Names()) {
		t.Errorf("docs/boot.md has %q, the program %q", names, Names())
	}
}
