package imagebuild

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// compiled is a program of croft's, which is made of modules: those of a test aren't written into it.
func compiled(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "init")
	if err := (OwnProgram{Source: "../../..", Dir: "bootstrap/kubernetes/init"}).Compile(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	return to
}

func sampleContents(t *testing.T) Contents {
	t.Helper()
	self := compiled(t)
	init, err := ReadProgram(self, "/sbin/init", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	other := init
	other.Path, other.Name = "/usr/bin/other", "other"
	other.Linked = []Package{{Name: "libc6-dev", Version: "2.36", Architecture: "amd64", Source: "glibc", SourceVersion: "2.36"}}
	return Contents{
		Name: "image", Version: "1.36.3+v1.2.3", Release: "12", Programs: []Program{init, other},
		Packages: []Package{
			{Name: "nftables", Version: "1.0.6-2+deb12u2", Architecture: "amd64", Source: "nftables", SourceVersion: "1.0.6-2+deb12u2", SHA256: strings.Repeat("1", 64)},
			{Name: "libgmp10", Version: "2:6.2.1+dfsg1~1", Architecture: "amd64", Source: "gmp", SourceVersion: "2:6.2.1+dfsg1~1", SHA256: strings.Repeat("2", 64)},
		},
	}
}

// The bill is one of CycloneDX 1.5: the members that it requires, types and forms of its schema, references that are
// unique and lead somewhere. It lists each package, program and module once, and is the same each time.
func TestBill(t *testing.T) {
	c := sampleContents(t)
	raw, err := BillOf(c)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := BillOf(c); err != nil || string(again) != string(raw) {
		t.Errorf("the second bill differs, %v", err)
	}
	var b struct {
		BOMFormat, SpecVersion string
		Version                int
		Metadata               struct{ Component map[string]any }
		Components             []struct {
			Type, Name, Version, PURL string
			Ref                       string `json:"bom-ref"`
			Hashes                    []struct{ Alg, Content string }
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	if b.BOMFormat != "CycloneDX" || b.SpecVersion != "1.5" || b.Version != 1 || b.Metadata.Component["version"] != c.Version {
		t.Errorf("it begins with %s", raw[:200])
	}
	purl := regexp.MustCompile(`^pkg:(deb/debian/[a-z0-9.+-]+|golang/[a-z0-9./_~-]+)@[A-Za-z0-9.%~_-]+(\?[a-z]+=[^&\s]+(&[a-z]+=[^&\s]+)*)?$`)
	known := map[string]string{"image": "image"}
	for _, c := range b.Components {
		if known[c.Ref] != "" || c.Ref == "" || c.Name == "" || c.Type != "library" && c.Type != "application" {
			t.Errorf("component %+v", c)
		}
		known[c.Ref] = c.Name + " " + c.Version
		if c.Type == "library" && (!purl.MatchString(c.PURL) || c.PURL != c.Ref) {
			t.Errorf("the address of %s is %s", c.Name, c.PURL)
		}
		for _, h := range c.Hashes {
			if h.Alg != "SHA-256" || !sha256Digits.MatchString(h.Content) {
				t.Errorf("the hash of %s is %+v", c.Name, h)
			}
		}
	}
	modules := map[string]int{}
	for _, d := range b.Dependencies {
		modules[d.Ref] = len(d.DependsOn)
		for _, ref := range append(d.DependsOn, d.Ref) {
			if known[ref] == "" {
				t.Errorf("%s isn't listed", ref)
			}
		}
	}
	if modules["image"] != 4 || modules["program:/sbin/init"] < 2 || modules["program:/sbin/init"] != modules["program:/usr/bin/other"]-1 {
		t.Errorf("the numbers of dependencies are %v", modules)
	}
	for ref, want := range map[string]string{
		"pkg:deb/debian/nftables@1.0.6-2%2Bdeb12u2?arch=amd64&distro=debian-12":                                      "nftables 1.0.6-2+deb12u2",
		"pkg:deb/debian/libgmp10@2%3A6.2.1%2Bdfsg1~1?arch=amd64&distro=debian-12&upstream=gmp%402%3A6.2.1%2Bdfsg1~1": "libgmp10 2:6.2.1+dfsg1~1",
		"pkg:deb/debian/libc6-dev@2.36?arch=amd64&distro=debian-12&upstream=glibc%402.36":                            "libc6-dev 2.36",
		"program:/sbin/init": "init v1.2.3",
	} {
		if known[ref] != want {
			t.Errorf("%s is %q, want %q", ref, known[ref], want)
		}
	}
}

// A module that a program is compiled from is listed with its version and its hash of go.sum.
func TestModulesOfProgram(t *testing.T) {
	const module = "github.com/pkg/errors"
	p := sampleContents(t).Programs[0]
	version := p.ModuleVersion(module)
	if !strings.HasPrefix(version, "v0.") || p.ModuleVersion("stdlib") == "" || p.ModuleVersion("none") != "" || !sha256Digits.MatchString(p.SHA256) {
		t.Errorf("its version is %q; %+v", version, p)
	}
	for _, m := range p.Modules {
		if m.Path != module {
			continue
		}
		if sums := read(t, "../../../go.sum"); !strings.Contains(sums, module+" "+m.Version+" "+m.Sum+"\n") {
			t.Errorf("go.sum hasn't %+v", m)
		}
		c, err := m.component()
		if err != nil || len(c.Hashes) != 1 || !sha256Digits.MatchString(c.Hashes[0].Content) {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if _, err := ReadProgram("/bin/sh", "/bin/sh", ""); err == nil {
		t.Error("a program of another language is read")
	}
}

// A program's own module is listed if it has a version; one that is replaced is listed as what replaces it.
func TestModulesOf(t *testing.T) {
	dep := &debug.Module{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:a"}
	replaced := &debug.Module{Path: "k8s.io/api", Version: "v0.0.0", Replace: &debug.Module{Path: "k8s.io/api", Version: "v0.36.3", Sum: "h1:b"}}
	own := debug.Module{Path: "example.org/own", Version: "v2.3.4", Sum: "h1:c"}
	std, a, api := Module{"stdlib", "1.26.8", ""}, Module{"example.org/a", "v1.0.0", "h1:a"}, Module{"k8s.io/api", "v0.36.3", "h1:b"}
	for name, tt := range map[string]struct {
		main debug.Module
		deps []*debug.Module
		want []Module
	}{
		"of a source tree": {debug.Module{Path: "example.org/own", Version: "(devel)"}, []*debug.Module{dep, replaced}, []Module{std, a, api}},
		"of a module":      {own, []*debug.Module{dep}, []Module{std, {"example.org/own", "v2.3.4", "h1:c"}, a}},
		"of a folder":      {own, []*debug.Module{{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "../b"}}}, nil},
	} {
		got, err := modulesOf(&debug.BuildInfo{GoVersion: "go1.26.8", Path: "example.org/own/cmd", Main: tt.main, Deps: tt.deps})
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: they are %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

func TestBadBills(t *testing.T) {
	sample := sampleContents(t)
	for name, change := range map[string]func(c *Contents){
		"a package twice": func(c *Contents) { c.Packages = append(c.Packages, c.Packages[0]) },
		"a program twice": func(c *Contents) { c.Programs = append(c.Programs, c.Programs[0]) },
		"a module of two contents": func(c *Contents) {
			c.Programs[1].Modules = []Module{{"example.org/a", "v1.0.0", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}
			c.Programs[0].Modules = []Module{{"example.org/a", "v1.0.0", "h1:BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}
		},
		"a bad hash": func(c *Contents) { c.Programs[0].Modules = []Module{{"example.org/a", "v1.0.0", "h1:AAAA"}} },
		"a nameless": func(c *Contents) { c.Programs[0].Name = "" },
	} {
		c := sample
		c.Packages, c.Programs = slices.Clone(c.Packages), slices.Clone(c.Programs)
		change(&c)
		if _, err := BillOf(c); err == nil {
			t.Errorf("%s makes a bill", name)
		}
	}
}
