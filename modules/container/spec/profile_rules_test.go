package spec

import (
	"slices"
	"strings"
	"testing"
)

// rules are the lines of a profile that say something.
func rules(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// TestTheProfileHasTheseRules holds the whole profile: any other rule allows or forbids containers something else.
func TestTheProfileHasTheseRules(t *testing.T) {
	text, err := machineWith(t, "croftd (enforce)\n", "abi/3.0", "tunables/global", "abstractions/base").profile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"abi <abi/3.0>,",
		"include <tunables/global>",
		"profile croft-container flags=(attach_disconnected, mediate_deleted) {",
		"include <abstractions/base>",
		"file,",
		"network,",
		"capability,",
		"umount,",
		"deny mount,",
		"signal (receive) peer=unconfined,",
		"signal (receive) peer=runc,",
		`signal (receive) peer="croftd",`,
		"signal (send, receive) peer=croft-container,",
		"ptrace (trace, tracedby, read, readby) peer=croft-container,",
		"deny @{PROC}/* w,",
		"deny @{PROC}/[^1-9]*/** w,",
		"deny @{PROC}/sysrq-trigger rwklx,",
		"deny @{PROC}/kcore rwklx,",
		"deny /sys/[^f]*/** wklx,",
		"deny /sys/f[^s]*/** wklx,",
		"deny /sys/fs/[^c]*/** wklx,",
		"deny /sys/firmware/** rwklx,",
		"deny /sys/devices/virtual/powercap/** rwklx,",
		"deny /sys/kernel/security/** rwklx,",
		"}",
	}
	got := rules(text)
	for _, rule := range want {
		if !slices.Contains(got, rule) {
			t.Errorf("it has no rule %q", rule)
		}
	}
	for _, rule := range got {
		if !slices.Contains(want, rule) {
			t.Errorf("it has the rule %q, which isn't known here", rule)
		}
	}
	if !t.Failed() && !slices.Equal(got, want) {
		t.Errorf("its rules are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNoProfileLetsContainersOut: on no machine may a container leave its profile, mount, change its root, or trace others.
func TestNoProfileLetsContainersOut(t *testing.T) {
	whole := []string{"abi/3.0", "tunables/global", "abstractions/base"}
	for name, on := range map[string]machine{
		"this machine":           "/",
		"a confined agent":       machineWith(t, "croftd (enforce)\n", whole...),
		"nobody confines it":     machineWith(t, "unconfined\n", whole...),
		"an AppArmor without it": machineWith(t, "unconfined\n"),
	} {
		text, err := on.profile()
		if err != nil {
			t.Fatal(err)
		}
		all := rules(text)
		if !slices.Contains(all, "deny mount,") {
			t.Errorf("%s: containers may mount", name)
		}
		for _, rule := range all {
			rule, denied := strings.CutPrefix(strings.TrimPrefix(rule, "audit "), "deny ")
			if denied {
				continue
			}
			word, _, _ := strings.Cut(strings.TrimPrefix(rule, "allow "), " ")
			switch strings.TrimSuffix(word, ",") {
			case "change_profile", "mount", "remount", "pivot_root", "userns", "all", "unconfined":
				t.Errorf("%s: it allows %q", name, rule)
			case "ptrace":
				if !strings.HasSuffix(rule, " peer=croft-container,") {
					t.Errorf("%s: it allows traces of others: %q", name, rule)
				}
			}
			if strings.Contains(rule, "complain") || strings.Contains(rule, "flags=(unconfined") {
				t.Errorf("%s: it isn't enforced: %q", name, rule)
			}
		}
	}
}
