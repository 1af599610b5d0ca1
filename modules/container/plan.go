package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/node"
)

// The labels of a container in containerd.
const (
	labelReservation = "croft.reservation"
	labelUser        = "croft.user"
	labelHash        = "croft.hash" // missing in those of an older croft
	labelImage       = "croft.image"
	labelSpec        = "croft.spec"
	labelNamespace   = "croft.namespace"
	labelStop        = "croft.stop"
	labelVolume      = "croft.volume/" // and the volume's ID
)

// form counts up when the same spec makes another container.
const form = 1

// plan is what a container is made of.
type plan struct {
	spec   node.ContainerSpec
	image  image.Layers
	root   rootfs.Spec
	print  string
	labels map[string]string
}

// planOf says what is made for a spec.
func (m *Module) planOf(s node.ContainerSpec, unpacked image.Layers) (plan, error) {
	p := plan{spec: s, image: unpacked}
	p.root = rootfs.Spec{ID: s.ID, User: s.User, Lower: unpacked.Lower, Layer: s.Layer, Files: files(s)}
	for _, v := range s.Mounts {
		p.root.Binds = append(p.root.Binds, rootfs.Bind{Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly, Mapped: true})
	}
	if needsInit(s) {
		if m.cfg.Init == "" {
			return plan{}, node.Errorf(node.Refused, "cannot make container %s: Interactive, as secret_env, needs croft's init, which is not installed on this node", s.ID)
		}
		p.root.Binds = append(p.root.Binds, rootfs.Bind{Source: m.cfg.Init, Target: initTarget, ReadOnly: true, File: true})
	}
	if len(s.Secrets) > 0 {
		p.root.Binds = append(p.root.Binds, rootfs.Bind{Source: m.secrets.Path(s.User, s.ID), Target: secretsTarget, ReadOnly: true, File: true})
	}
	var err error
	if p.print, err = fingerprint(s, unpacked.Digest, m.initOf(s)); err != nil {
		return plan{}, node.Errorf(node.Invalid, "cannot make container %s: %w", s.ID, err)
	}
	p.labels = map[string]string{
		labelReservation: s.ID, labelUser: s.User, labelImage: unpacked.Digest, labelSpec: p.print, labelStop: unpacked.Config.StopSignal,
	}
	if s.Hash != "" {
		p.labels[labelHash] = s.Hash
	}
	for _, v := range s.Mounts {
		p.labels[labelVolume+v.Volume] = "1"
	}
	return p, nil
}

// printed is what of a spec is in a fingerprint. What came to the spec later is
// left out while it isn't asked for: an upgrade must not make containers anew.
// Whose it is is always left out, and so is what the secret variables say: prints
// lie on disk, and short secrets could be guessed from them.
type printed struct {
	node.ContainerSpec
	Secrets         node.Env `json:",omitempty"`
	SecretNames     []string `json:",omitempty"`
	NoCapabilities  bool     `json:",omitempty"`
	ReadOnly        bool     `json:",omitempty"`
	NonRoot         bool     `json:",omitempty"`
	Hash            string   `json:",omitempty"`
	AdoptUnlabelled bool     `json:",omitempty"`
}

// fingerprint is the same for the same container: of the same spec, image and init.
func fingerprint(s node.ContainerSpec, digest, initProgram string) (string, error) {
	alike := s // what was asked is the same whether nothing is nil or empty
	alike.Entrypoint, alike.DNS, alike.Terminal, alike.Names = orNil(s.Entrypoint), orNil(s.DNS), orNil(s.Terminal), orNil(s.Names)
	if len(s.Env) == 0 {
		alike.Env = nil
	}
	if len(s.Mounts) == 0 {
		alike.Mounts = nil
	}
	raw, err := json.Marshal(struct {
		Form   int
		Spec   printed
		Digest string
		Init   string
	}{form, printed{ContainerSpec: alike, SecretNames: slices.Sorted(maps.Keys(s.Secrets)), NoCapabilities: s.NoCapabilities, ReadOnly: s.ReadOnly, NonRoot: s.NonRoot}, digest, initProgram})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

func orNil(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func (m *Module) initOf(s node.ContainerSpec) string {
	if needsInit(s) {
		return m.cfg.Init
	}
	return ""
}

// volumes are the IDs of the volumes that a container's labels name.
func volumes(labels map[string]string) []string {
	out := []string{}
	for key := range labels {
		if id, ok := strings.CutPrefix(key, labelVolume); ok {
			out = append(out, id)
		}
	}
	sort.Strings(out)
	return out
}

// files are those that every container gets of the node.
func files(s node.ContainerSpec) []rootfs.File {
	var resolve, hosts strings.Builder
	for _, server := range s.DNS {
		fmt.Fprintf(&resolve, "nameserver %s\n", server)
	}
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 %s\n", s.Hostname)
	return []rootfs.File{
		{Target: "/etc/resolv.conf", Content: []byte(resolve.String())},
		{Target: "/etc/hosts", Content: []byte(hosts.String())},
		{Target: "/etc/hostname", Content: []byte(s.Hostname + "\n")},
	}
}
