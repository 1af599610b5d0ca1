package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/fileid"
)

// Package is a binary package of one version.
type Package struct {
	Name, Version, Architecture string
	// Source is the source package and its version, by which Debian names what is vulnerable.
	Source, SourceVersion string
	// SHA256 is the hash of the package's file.
	SHA256 string
	// Dir is the folder that it is unpacked in.
	Dir string
}

// Archive is Debian's archive as apt on this machine knows it. What is installed here plays no part, and nothing is:
// packages are fetched and unpacked into the cache, and their scripts never run.
type Archive struct {
	run Runner
	// cache has the unpacked packages, each in a folder with the hash of its file.
	cache string
	// empty is a folder with apt's state of a machine on which nothing is installed.
	empty string
	// lists is the folder of apt's lists of packages.
	lists string
	say   func(format string, args ...any)
}

// aptListsFolder is where apt keeps its lists of packages.
const aptListsFolder = "/var/lib/apt/lists"

// listsAge is how old apt's lists may be: an image with an older kernel has known holes.
const listsAge = 24 * time.Hour

// OpenArchive opens the archive; cache is the folder of the cache, and say tells what takes long.
func OpenArchive(cache string, run Runner, say func(format string, args ...any)) (*Archive, error) {
	a := &Archive{run: run, cache: filepath.Join(cache, packagesFolder), empty: filepath.Join(cache, "apt"), lists: aptListsFolder, say: say}
	for _, dir := range []string{a.cache, a.empty} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return a, os.WriteFile(filepath.Join(a.empty, "status"), nil, 0o644)
}

// Packages are the named packages and all that they depend on, and the kernel's, which comes last and alone: what it
// depends on is for machines on which it is installed. newest is the package that depends on the newest kernel of its
// kind, such as linux-image-amd64. They are unpacked.
func (a *Archive) Packages(ctx context.Context, newest string, names []string) (all []Package, kernel Package, err error) {
	if age := a.age(time.Now()); age > listsAge {
		a.say("apt-get update: the lists of packages are %s old", age.Round(time.Hour))
		if _, err := a.run(ctx, "", "apt-get", "update", "-qq"); err != nil {
			a.say("the packages are those of the old lists, without later security updates: %v", err)
		}
	}
	all, kernel, err = a.attempt(ctx, newest, names)
	if err == nil || ctx.Err() != nil {
		return all, kernel, err
	}
	// apt has no list of packages yet, or one so old that Debian has replaced some of them.
	a.say("apt-get update, because of: %v", err)
	if _, err := a.run(ctx, "", "apt-get", "update", "-qq"); err != nil {
		return nil, kernel, err
	}
	return a.attempt(ctx, newest, names)
}

// age is the time since apt's last update: that of its newest list, or of the folder in which it fetches them. 0 without lists:
// then apt fails, and they are fetched.
func (a *Archive) age(now time.Time) time.Duration {
	entries, err := os.ReadDir(a.lists)
	if err != nil || len(entries) == 0 {
		return 0
	}
	var newest time.Time
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return now.Sub(newest)
}

func (a *Archive) attempt(ctx context.Context, newest string, names []string) (all []Package, kernel Package, err error) {
	image, err := a.kernelName(ctx, newest)
	if err != nil {
		return nil, kernel, err
	}
	text, err := a.apt(ctx, "apt-get", append([]string{"install", "--simulate", "--no-install-recommends"}, names...)...)
	if err != nil {
		return nil, kernel, err
	}
	wanted, err := parseSimulation(text)
	if err != nil {
		return nil, kernel, err
	}
	text, err = a.apt(ctx, "apt-cache", append([]string{"show", "--no-all-versions", image}, wanted...)...)
	if err != nil {
		return nil, kernel, err
	}
	described, err := parseDescriptions(text)
	if err != nil {
		return nil, kernel, err
	}
	for _, name := range append(wanted, image) {
		p, ok := described[name]
		if !ok {
			return nil, kernel, fmt.Errorf("cannot find package %s: apt-cache doesn't describe it", name)
		}
		p.Dir = filepath.Join(a.cache, p.SHA256)
		all = append(all, p)
	}
	return all, all[len(all)-1], a.fetch(ctx, all)
}

// apt runs a command of apt as on a machine on which nothing is installed.
func (a *Archive) apt(ctx context.Context, name string, args ...string) (string, error) {
	state := []string{"-o", "Dir::State::status=" + filepath.Join(a.empty, "status"), "-o", "Dir::State::extended_states=" + filepath.Join(a.empty, "extended_states")}
	out, err := a.run(ctx, "", name, append(state, args...)...)
	return string(out), err
}

// kernelName is the package of a kernel, on which the package newest depends.
func (a *Archive) kernelName(ctx context.Context, newest string) (string, error) {
	text, err := a.apt(ctx, "apt-cache", "depends", newest)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Depends:" && strings.HasPrefix(f[1], "linux-image-") {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("cannot find the kernel: apt has no package %s; the sources of apt need Debian's main", newest)
}

// installed is a line of apt-get --simulate: name, version, and the releases that have it. Packages that an update
// replaces have a further version before the parenthesis, which an empty machine hasn't.
var installed = regexp.MustCompile(`^Inst (\S+) \((\S+) (.*) \[\S+\]\)`)

// parseSimulation are the packages that apt-get --simulate would install, each as NAME=VERSION. All must be Debian's.
func parseSimulation(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "Inst ") {
			continue
		}
		m := installed.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("cannot read what apt-get would install: %q", strings.TrimSpace(line))
		}
		if !strings.HasPrefix(m[3], "Debian") {
			return nil, fmt.Errorf("cannot take package %s %s: it is of %s, not Debian's", m[1], m[2], m[3])
		}
		out = append(out, m[1]+"="+m[2])
	}
	if len(out) == 0 {
		return nil, errors.New("cannot read what apt-get would install: it names no package")
	}
	return out, nil
}

var sha256Digits = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseDescriptions reads what apt-cache show prints; the keys are NAME=VERSION and NAME.
func parseDescriptions(text string) (map[string]Package, error) {
	out := map[string]Package{}
	for stanza := range strings.SplitSeq(text, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(stanza) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				fields[name] = strings.TrimSpace(value)
			}
		}
		p := Package{
			Name: fields["Package"], Version: fields["Version"], Architecture: fields["Architecture"], SHA256: fields["SHA256"],
			Source: fields["Package"], SourceVersion: fields["Version"],
		}
		if p.Name == "" {
			continue
		}
		if p.Version == "" || p.Architecture == "" || !sha256Digits.MatchString(p.SHA256) {
			return nil, fmt.Errorf("cannot take package %s %q: apt-cache names no version, architecture or SHA-256", p.Name, p.Version)
		}
		if name, version, ok := strings.Cut(fields["Source"], " "); ok {
			p.Source, p.SourceVersion = name, strings.Trim(version, "()")
		} else if name != "" {
			p.Source = name
		}
		for _, key := range []string{p.Name, p.Name + "=" + p.Version} {
			if _, twice := out[key]; !twice {
				out[key] = p
			}
		}
	}
	return out, nil
}

// fetch fetches the packages that the cache hasn't, and unpacks each into its folder, which comes by a rename.
func (a *Archive) fetch(ctx context.Context, packages []Package) error {
	missing, names := map[string]Package{}, []string{}
	for _, p := range packages {
		if _, err := os.Stat(p.Dir); err == nil {
			continue
		}
		missing[p.SHA256] = p
		names = append(names, p.Name+"="+p.Version)
	}
	if len(missing) == 0 {
		return nil
	}
	temp, err := os.MkdirTemp(a.cache, Temporary)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	a.say("fetching %d packages: %s", len(names), strings.Join(names, " "))
	if _, err := a.run(ctx, temp, "apt-get", append([]string{"download", "-qq", "-o", "APT::Sandbox::User=root"}, names...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(temp, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		sum, err := fileid.Sum(file)
		if err != nil {
			return err
		}
		p, ok := missing[sum]
		if !ok {
			return fmt.Errorf("cannot take %s: no wanted package has its SHA-256, %s", filepath.Base(file), sum)
		}
		delete(missing, sum)
		made := filepath.Join(temp, "files")
		if _, err := a.run(ctx, "", "dpkg-deb", "-x", file, made); err != nil {
			return err
		}
		if err := rename(made, p.Dir); err != nil {
			return err
		}
	}
	for _, p := range missing {
		return fmt.Errorf("cannot fetch package %s %s: apt-get has written none with its SHA-256, %s", p.Name, p.Version, p.SHA256)
	}
	return nil
}

// InstalledPackages are packages that are installed on this machine; they have no hash and no folder.
func InstalledPackages(ctx context.Context, run Runner, names ...string) ([]Package, error) {
	const format = "${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n"
	text, err := run(ctx, "", "dpkg-query", append([]string{"--show", "--showformat=" + format}, names...)...)
	if err != nil {
		return nil, err
	}
	var out []Package
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 5 {
			return nil, fmt.Errorf("cannot read what dpkg-query prints: %q", line)
		}
		out = append(out, Package{Name: f[0], Version: f[1], Architecture: f[2], Source: f[3], SourceVersion: f[4]})
	}
	return out, nil
}
