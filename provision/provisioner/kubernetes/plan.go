package kubernetes

import (
	"net"
	"net/netip"
	"strings"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// plan is what a reservation asks for, checked.
type plan struct {
	id      string
	user    string
	claim   provisioner.Claim
	size    workload.VMSize
	network reference.Network
	ip      string
	masters []string
	// keys are lines of authorized_keys, accounts the names of GitHub users whose keys the VM fetches.
	keys     []string
	accounts []string
	// sealed is the cluster's secret.
	sealed string
}

// planOf makes the plan from the reservation alone.
func planOf(r *workload.Reservation) (plan, error) {
	data, err := workload.DataOf[workload.Kubernetes](r)
	if err != nil {
		return plan{}, node.WithKind(node.Invalid, err)
	}
	size, ok := workload.VMSizeOf(data.Size)
	if !ok {
		return plan{}, node.Errorf(node.Invalid, "data.size is %d, must be from 1 to %d", data.Size, workload.MaxVMSize)
	}
	claim, err := provisioner.ClaimOf(r, nil)
	if err != nil {
		return plan{}, err
	}
	hash, err := reference.Hash(data.NetworkHash)
	if err != nil {
		return plan{}, err
	}
	p := plan{
		id: r.ID, user: r.User, claim: claim, size: size, sealed: data.ClusterSecret,
		network: reference.Network{User: r.User, Name: string(data.NetworkID), Hash: hash, Field: "data"},
	}
	if p.ip, err = address("data.ip", data.IP); err != nil {
		return plan{}, err
	}
	for i, ip := range data.MasterIPs {
		master, err := address(fielderror.Index("data.master_ips", i), ip)
		if err != nil {
			return plan{}, err
		}
		p.masters = append(p.masters, master)
	}
	return p, p.addKeys(data.SSHKeys)
}

// address returns an IPv4 address: those of VMs and of their masters are.
func address(field string, ip net.IP) (string, error) {
	a, ok := netip.AddrFromSlice(ip)
	if a = a.Unmap(); !ok || !a.Is4() {
		return "", node.Errorf(node.Invalid, "%s is %.80q, must be an IPv4 address", field, ip.String())
	}
	return a.String(), nil
}

// account introduces the name of a GitHub user in place of a key.
const account = "github:"

func (p *plan) addKeys(keys []string) error {
	for i, key := range keys {
		field := fielderror.Index("data.ssh_keys", i)
		if name, ok := strings.CutPrefix(key, account); ok {
			if !isAccount(name) {
				return node.Errorf(node.Invalid, "%s is %.80q, must be %sNAME with 1 to 39 letters, digits and inner hyphens", field, key, account)
			}
			p.accounts = append(p.accounts, name)
			continue
		}
		if kind, rest, ok := strings.Cut(strings.TrimSpace(key), " "); !ok || rest == "" || !isKeyType(kind) {
			return node.Errorf(node.Invalid, "%s is %.80q, must be a public key as in authorized_keys, or %sNAME", field, key, account)
		}
		p.keys = append(p.keys, strings.TrimSpace(key))
	}
	return nil
}

// isAccount reports whether GitHub has names like this.
func isAccount(name string) bool {
	if len(name) < 1 || len(name) > 39 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.Contains(name, "--")
}

// isKeyType reports whether a word is a type of SSH key. Options before the type are refused: with them a line
// could run commands at a login.
func isKeyType(word string) bool {
	switch word {
	case "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
		"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com":
		return true
	}
	return false
}
