package settings

import (
	"bytes"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/pkg/clip"
)

// Prefix begins the names of croft's parameters on the kernel's command line.
const Prefix = "croft."

const (
	// MostFile bounds the configuration file, in bytes.
	MostFile = 1 << 20
	// mostShown bounds what a message shows of a value, in characters.
	mostShown = 100
	// emptyDisks has all empty disks become pools.
	emptyDisks = "empty"
)

// Settings are all settings of a booted node.
type Settings struct {
	Node Node
	// Croftd are croftd's own settings by name, as text.
	Croftd map[string]string
}

// Node are init's own settings.
type Node struct {
	// EmptyDisks has every empty disk become a pool; Disks names disks. Wipe names those that may be overwritten.
	EmptyDisks  bool
	Disks, Wipe []string
	// StateID is the UUID of the pool with the node's state, where several disks have one.
	StateID string
	// Interfaces are the machine's own network interfaces; none for all.
	Interfaces []string
	// Addresses make the first interface static, with Gateways and DNS; none for DHCP.
	Addresses []netip.Prefix
	Gateways  []netip.Addr
	DNS       []netip.Addr
	// TimeServers are asked by NTP, as host or host:port; none for those of DHCP, or Debian's.
	TimeServers []string
	// Shell gives whoever is at the console a shell of root.
	Shell bool
	// Upgrade is the address of image folders to upgrade from; empty for none. UpgradeEvery is how often it is asked.
	Upgrade      string
	UpgradeEvery time.Duration
	// NoFile has the node run without the operator's file, also if it had one before.
	NoFile bool
	// Test is the label of a disk whose program is run once the node is ready; empty for none.
	Test string
}

// defaultUpgradeEvery and leastUpgradeEvery are how often an upgrade is looked for, by default and at most.
const (
	defaultUpgradeEvery = time.Hour
	leastUpgradeEvery   = 10 * time.Second
)

// aliases are shorter names of croftd's settings.
func aliases() map[string]string { return map[string]string{"farm": "farm-id"} }

// own are the settings of init by name; each reads its value.
func own() map[string]func(n *Node, value string) error {
	return map[string]func(n *Node, value string) error{
		"disks":         setDisks,
		"wipe-disk":     func(n *Node, v string) (err error) { n.Wipe, err = paths(v); return err },
		"state":         setState,
		"interfaces":    func(n *Node, v string) (err error) { n.Interfaces, err = names(v); return err },
		"address":       setAddresses,
		"gateway":       func(n *Node, v string) (err error) { n.Gateways, err = addresses(v); return err },
		"dns":           func(n *Node, v string) (err error) { n.DNS, err = addresses(v); return err },
		"ntp-servers":   func(n *Node, v string) (err error) { n.TimeServers, err = hosts(v); return err },
		"console":       setConsole,
		"config":        setConfig,
		"upgrade":       setUpgrade,
		"upgrade-every": setUpgradeEvery,
		"test":          setTest,
	}
}

// Names are the names of init's settings.
func Names() []string { return slices.Sorted(maps.Keys(own())) }

// loader are the parameters that the boot loader adds for stage 1 and init; they are no settings.
func loader() []string { return []string{"slot", "trial", "recovery"} }

// fixed are settings of croftd that the image makes itself.
func fixed() []string {
	return []string{
		"bus", "bus-listen", "state-dir", "run-dir", "hooks-dir", "secrets-dir", "containerd", "containerd-binary", "init-binary", "zdb-binary", "qemu",
		"state-socket", "health-file", "pool-size", "pool-type", "disk", "log-format",
	}
}

// Read joins the command line and the text of the configuration file, which may be nil. It returns every fault; what is right is in the
// settings all the same.
func Read(line cmdline.Line, file []byte) (Settings, []error) {
	s := Settings{Node: Node{UpgradeEvery: defaultUpgradeEvery}, Croftd: map[string]string{}}
	values, faults := parseFile(file)
	fromLine := map[string]string{}
	for _, w := range line.Below(Prefix) {
		if !slices.Contains(loader(), w.Name) {
			fromLine[w.Name] = w.Value
		}
	}
	for _, source := range []struct {
		name   string
		values map[string]string
	}{{"the file croft.yaml", values}, {"the kernel's command line", fromLine}} {
		for _, name := range slices.Sorted(maps.Keys(source.values)) {
			if err := s.set(name, source.values[name]); err != nil {
				faults = append(faults, errors.WithMessagef(err, "in %s", source.name))
			}
		}
	}
	return s, faults
}

// set sets a setting by its name.
func (s *Settings) set(name, value string) error {
	if set, ok := own()[name]; ok {
		return errors.WithMessagef(set(&s.Node, value), "cannot use %s=%s", name, clip.Line(value, mostShown))
	}
	if long, ok := aliases()[name]; ok {
		name = long
	}
	if slices.Contains(fixed(), name) {
		return errors.Errorf("cannot use %s=%s: the boot image sets it itself", name, clip.Line(value, mostShown))
	}
	s.Croftd[name] = value
	return nil
}

// parseFile reads one flat YAML mapping, whose values are texts or lists of texts.
func parseFile(raw []byte) (map[string]string, []error) {
	wrong := func(format string, args ...any) []error {
		return []error{errors.Errorf("cannot read the file croft.yaml: "+format, args...)}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if len(raw) > MostFile {
		return nil, wrong("it is larger than %d bytes", MostFile)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, wrong("%v", err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, wrong("line %d: it must be a mapping of settings", top.Line)
	}
	out, faults := map[string]string{}, []error(nil)
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		text, err := scalar(value)
		if _, twice := out[key.Value]; twice {
			err = errors.New("it is set twice")
		}
		if err != nil {
			faults = append(faults, wrong("line %d: %s: %v", key.Line, clip.Line(key.Value, mostShown), err)...)
			continue
		}
		out[key.Value] = text
	}
	return out, faults
}

func scalar(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "", nil
		}
		return n.Value, nil
	case yaml.SequenceNode:
		items := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, ",") {
				return "", errors.New("it must be a text or a list of texts without commas")
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("it must be a text or a list of texts")
}

// File is the text of croftd's configuration file: the operator's settings and those of the image, which win.
func (s Settings) File(image map[string]string) ([]byte, error) {
	all := map[string]string{}
	maps.Copy(all, s.Croftd)
	maps.Copy(all, image)
	var doc yaml.Node
	doc.Kind = yaml.MappingNode
	for _, name := range slices.Sorted(maps.Keys(all)) {
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: all[name]})
	}
	raw, err := yaml.Marshal(&doc)
	return raw, errors.Wrap(err, "cannot write croftd's settings")
}

func setDisks(n *Node, value string) (err error) {
	n.EmptyDisks = value == emptyDisks
	if n.EmptyDisks {
		n.Disks = nil
		return nil
	}
	n.Disks, err = paths(value)
	return err
}

func setState(n *Node, value string) error {
	if strings.Trim(value, "0123456789abcdef-") != "" || len(value) > 36 {
		return errors.New("it must be the UUID of a pool's file system, as the console shows it")
	}
	n.StateID = value
	return nil
}

func setAddresses(n *Node, value string) error {
	n.Addresses = nil
	for _, text := range list(value) {
		p, err := netip.ParsePrefix(text)
		if err != nil || !p.Addr().IsValid() || p.Addr().IsUnspecified() || p.Addr().IsMulticast() {
			return errors.New("it must be addresses with their networks' lengths, such as 192.0.2.7/24, separated by commas")
		}
		n.Addresses = append(n.Addresses, p)
	}
	return nil
}

func setConsole(n *Node, value string) error {
	if value != "shell" && value != "" {
		return errors.New("it must be shell, or empty")
	}
	n.Shell = value == "shell"
	return nil
}

func setConfig(n *Node, value string) error {
	if value != "none" && value != "" {
		return errors.New("it must be none, or empty")
	}
	n.NoFile = value == "none"
	return nil
}

func setUpgrade(n *Node, value string) error {
	u, err := url.Parse(value)
	if value != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		return errors.New("it must be the http or https address of a folder with an image")
	}
	n.Upgrade = strings.TrimSuffix(value, "/")
	return nil
}

func setUpgradeEvery(n *Node, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < leastUpgradeEvery {
		return errors.Errorf("it must be a duration of at least %s, such as %s", leastUpgradeEvery, defaultUpgradeEvery)
	}
	n.UpgradeEvery = d
	return nil
}

func setTest(n *Node, value string) error {
	if strings.ContainsAny(value, "/ ") || len(value) > 16 {
		return errors.New("it must be the label of a file system, at most 16 characters")
	}
	n.Test = value
	return nil
}

func list(value string) []string {
	var out []string
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// paths are disks, which may have a type before them, as SSD:/dev/sda.
func paths(value string) ([]string, error) {
	out := list(value)
	for _, text := range out {
		at := strings.TrimPrefix(strings.TrimPrefix(text, "SSD:"), "HDD:")
		if !strings.HasPrefix(at, "/dev/") || filepath.Clean(at) != at {
			return nil, errors.New("it must be empty disks by the word empty, or paths below /dev, separated by commas")
		}
	}
	return out, nil
}

func names(value string) ([]string, error) {
	out := list(value)
	for _, text := range out {
		if len(text) > 15 || strings.ContainsAny(text, "/ :") {
			return nil, errors.New("it must be names of network interfaces, separated by commas")
		}
	}
	return out, nil
}

func addresses(value string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, text := range list(value) {
		a, err := netip.ParseAddr(text)
		if err != nil || a.IsUnspecified() || a.IsMulticast() {
			return nil, errors.New("it must be IP addresses, separated by commas")
		}
		out = append(out, a)
	}
	return out, nil
}

func hosts(value string) ([]string, error) {
	out := list(value)
	for _, text := range out {
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") != "" || len(text) > 255 {
			return nil, errors.New("it must be hosts or host:port, separated by commas")
		}
	}
	return out, nil
}
