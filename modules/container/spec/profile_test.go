package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machineWith is a machine that has these of AppArmor's files, and whose agent has this profile.
func machineWith(t *testing.T, agent string, there ...string) machine {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"proc/self/attr/current": agent}
	for _, name := range there {
		files["etc/apparmor.d/"+name] = ""
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return machine(root)
}

// TestTheProfileIsAccepted has apparmor_parser compile the profile, as for a kernel with AppArmor, for machines of all kinds.
func TestTheProfileIsAccepted(t *testing.T) {
	whole := []string{"abi/3.0", "tunables/global", "abstractions/base"}
	for name, c := range map[string]struct {
		on  machine
		has []string
	}{
		"this machine":           {machine("/"), []string{"profile croft-container ", "include <abstractions/base>", "abi <abi/3.0>,"}},
		"a confined agent":       {machineWith(t, "croftd (enforce)\n", whole...), []string{`signal (receive) peer="croftd",`}},
		"a name with a space":    {machineWith(t, "my croftd (complain)\n", whole...), []string{`peer="my croftd",`}},
		"nobody confines it":     {machineWith(t, "unconfined\n", whole...), []string{`peer="unconfined",`}},
		"the kernel tells none":  {machineWith(t, "", whole...), []string{`peer="unconfined",`}},
		"an AppArmor without it": {machineWith(t, "unconfined\n"), []string{"@{PROC} = /proc/"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.on.profile()
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range append(c.has, "deny mount,") {
				if !strings.Contains(text, part) {
					t.Errorf("it has no %q:\n%s", part, text)
				}
			}
			if err := parse(text, "--skip-kernel-load", "--skip-cache"); err != nil {
				t.Errorf("%v:\n%s", err, text)
			}
		})
	}
}

func TestAProfileThatCannotBeMade(t *testing.T) {
	if text, err := machineWith(t, `a"b (enforce)`).profile(); err == nil || !strings.Contains(err.Error(), `a\"b`) {
		t.Errorf("with a name that can't be quoted it is %s, %v", text, err)
	}
	err := parse("profile croft-container { deny dance, }", "--skip-kernel-load", "--skip-cache")
	if err == nil || !strings.Contains(err.Error(), "refuses") {
		t.Errorf("a wrong one is refused with %v", err)
	}
}

// A service's PATH may leave out the folders of the administrator's programs.
func TestTheParserIsFoundWithoutPath(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := parse("profile croft-container { file, }", "--skip-kernel-load", "--skip-cache"); err != nil {
		t.Error(err)
	}
}
