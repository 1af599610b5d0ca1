package plan

import (
	"fmt"
	"sort"
	"strings"

	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/node"
)

// The labels of a container in containerd.
const (
	LabelReservation = "croft.reservation"
	LabelUser        = "croft.user"
	LabelHash        = "croft.hash" // missing in those of an older croft
	LabelImage       = "croft.image"
	LabelSpec        = "croft.spec"
	LabelNamespace   = "croft.namespace"
	LabelStop        = "croft.stop"
	LabelVolume      = "croft.volume/" // and the volume's ID
)

// Plan describes all parts of a container.
type Plan struct {
	Spec  node.ContainerSpec
	Image image.Layers
	Root  rootfs.Spec
	// Fingerprint is the same for the same container, see fingerprint.
	Fingerprint string
	// Labels are those of the container in containerd.
	Labels map[string]string
}

// Node describes the node's files for a container.
type Node struct {
	// Init is the path of croft's init; empty where it isn't installed.
	Init string
	// SecretsFile is where the container's secret variables are kept.
	SecretsFile string
}

// Claim is a specification's ownership claim.
func Claim(s node.ContainerSpec) node.Claim {
	return node.Claim{Hash: s.Hash, AdoptUnlabelled: s.AdoptUnlabelled}
}

// New plans a container of a checked specification. Refused when it needs croft's init
// and the node has none.
func New(s node.ContainerSpec, unpacked image.Layers, n Node) (Plan, error) {
	p := Plan{Spec: s, Image: unpacked}
	p.Root = rootfs.Spec{ID: s.ID, User: s.User, Lower: unpacked.Lower, Layer: s.Layer, Files: files(s)}
	for _, v := range s.Mounts {
		p.Root.Binds = append(p.Root.Binds, rootfs.Bind{Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly, Mapped: true})
	}
	initProgram := ""
	if needsInit(s) {
		if n.Init == "" {
			return Plan{}, node.Errorf(node.Refused, "cannot make container %s: Interactive, as secret_env, needs croft's init, which is not installed on this node", s.ID)
		}
		initProgram = n.Init
		p.Root.Binds = append(p.Root.Binds, rootfs.Bind{Source: n.Init, Target: initTarget, ReadOnly: true, File: true})
	}
	if len(s.Secrets) > 0 {
		p.Root.Binds = append(p.Root.Binds, rootfs.Bind{Source: n.SecretsFile, Target: secretsTarget, ReadOnly: true, File: true})
	}
	var err error
	if p.Fingerprint, err = fingerprint(s, unpacked.Digest, initProgram); err != nil {
		return Plan{}, node.Errorf(node.Invalid, "cannot make container %s: %w", s.ID, err)
	}
	p.Labels = map[string]string{
		LabelReservation: s.ID, LabelUser: s.User, LabelImage: unpacked.Digest, LabelSpec: p.Fingerprint, LabelStop: unpacked.Config.StopSignal,
	}
	if s.Hash != "" {
		p.Labels[LabelHash] = s.Hash
	}
	for _, v := range s.Mounts {
		p.Labels[LabelVolume+v.Volume] = "1"
	}
	return p, nil
}

// Volumes are the IDs of the volumes that a container's labels name.
func Volumes(labels map[string]string) []string {
	out := []string{}
	for key := range labels {
		if id, ok := strings.CutPrefix(key, LabelVolume); ok {
			out = append(out, id)
		}
	}
	sort.Strings(out)
	return out
}

// files are those that the node writes for every container.
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
