// Package clusterboot is what a node tells a Kubernetes VM at each boot: the user data of its config disk (pkg/nocloud). The
// provisioner writes it, and the image's init reads it.
//
// It owns nothing. It is written by the node alone, so that a reader needs no defence against its writer; its errors and its
// printed form show no secret all the same.
package clusterboot

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/pkg/errors"
)

// Data is the user data: a #cloud-config in JSON, which is YAML. An image with cloud-init understands it but for Croft.
type Data struct {
	SSHKeys []string `json:"ssh_authorized_keys,omitempty"`
	// SSHImport has accounts whose keys the machine fetches: gh:NAME.
	SSHImport []string `json:"ssh_import_id,omitempty"`
	Croft     Machine  `json:"croft"`
}

// Machine is the machine's place in its cluster.
type Machine struct {
	// Secret is shared by the machines of the cluster.
	Secret string `json:"cluster_secret"`
	// Masters are addresses of the control plane; none: this machine is it.
	Masters []string `json:"master_ips"`
	// Address is this machine's.
	Address string `json:"ip"`
}

// Control reports whether this machine is the control plane.
func (m Machine) Control() bool { return len(m.Masters) == 0 }

// String hides the secret, so that no log shows it.
func (m Machine) String() string {
	return fmt.Sprintf("machine %s with masters %v", m.Address, m.Masters)
}

// GoString hides the secret.
func (m Machine) GoString() string { return m.String() }

// A cluster's secret is that many bytes long, of printed ASCII.
const (
	LeastSecret = 8
	MostSecret  = 4 << 10
)

const cloudConfig = "#cloud-config\n"

var account = regexp.MustCompile(`^gh:[A-Za-z0-9]([A-Za-z0-9-]{0,37}[A-Za-z0-9])?$`)

// Encode returns the user data.
func (d Data) Encode() ([]byte, error) {
	text, err := json.Marshal(d)
	return append([]byte(cloudConfig), text...), errors.Wrap(err, "cannot write the boot data")
}

// Parse reads the user data of a config disk. Its errors don't show the secret.
func Parse(userData []byte) (Data, error) {
	text, ok := strings.CutPrefix(string(userData), cloudConfig)
	if !ok {
		return Data{}, errors.Errorf("cannot use the user data: its first line must be %q", strings.TrimSpace(cloudConfig))
	}
	var out Data
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return Data{}, errors.New("cannot use the user data: it must be JSON with the members ssh_authorized_keys, ssh_import_id and croft")
	}
	if len(out.Croft.Secret) < LeastSecret {
		return Data{}, errors.Errorf("cannot use the user data: croft.cluster_secret has %d bytes, must have at least %d", len(out.Croft.Secret), LeastSecret)
	}
	for field, addresses := range map[string][]string{"croft.ip": {out.Croft.Address}, "croft.master_ips": out.Croft.Masters} {
		for _, a := range addresses {
			if ip, err := netip.ParseAddr(a); err != nil || !ip.Is4() {
				return Data{}, errors.Errorf("cannot use the user data: %s has %.40q, must be an IPv4 address", field, a)
			}
		}
	}
	for _, name := range out.SSHImport {
		if !account.MatchString(name) {
			return Data{}, errors.Errorf("cannot use the user data: ssh_import_id has %.60q, must be gh: and an account's name", name)
		}
	}
	return out, nil
}
