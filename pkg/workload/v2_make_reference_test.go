package workload_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// firstReference is the first nonce of these vectors, so that those of the other
// files stay unchanged.
const firstReference = 200

func makeReferences(t *testing.T) vectorFile {
	m := &maker{t: t, made: firstReference}
	out := vectorFile{About: "Reservations of version 2 that name by hash what they use: a volume, a network, and the workloads that refer to them by hash_hex of these two. Keys are in keys.json."}
	volume := m.volume()
	network := m.signed(m.draft(workload.TypeNetwork, string(decode(t, readRecorded(t, "network").Post.Request).Data)))
	byHash := strings.NewReplacer("VOLUME", hashOf(t, volume).Hex(), "NETWORK", hashOf(t, network).Hex())
	container := func(data string) *workload.Reservation {
		return m.signed(m.draft(workload.TypeContainer, byHash.Replace(data)))
	}
	const data = `{"flist":"f","mounts":[{"volume_id":"7-1","volume_hash":"VOLUME","mountpoint":"/data"}],` +
		`"network":{"network_id":"net1","network_hash":"NETWORK","ips":["10.1.1.20"]},"capacity":{"cpu":1,"memory":64}}`
	vm := string(decode(t, readRecorded(t, "kubernetes_master").Post.Request).Data)
	vm = byHash.Replace(strings.Replace(vm, `"network_id":`, `"network_hash":"NETWORK","network_id":`, 1))
	out.Good = []vector{
		m.good("the volume", volume),
		m.good("the network", network),
		m.good("container", container(data)),
		m.good("container by the volume's hash alone", container(strings.Replace(data, `"network_hash":"NETWORK",`, ``, 1))),
		m.good("kubernetes", m.signed(m.draft(workload.TypeKubernetes, vm))),
	}
	swapped := m.in(m.encode(container(data)), hashOf(t, volume).Hex(), hashOf(t, network).Hex())
	out.Bad = append(staged("verify", []vector{
		{Name: "another volume", Document: swapped, Reason: "volume_hash is signed"},
		{Name: "without the volume's hash", Document: m.in(m.encode(container(data)), `"volume_hash":"`+hashOf(t, volume).Hex()+`",`, ``), Reason: "that it is there is signed too"},
	}), m.wrongReferences(data, byHash)...)
	return out
}

func (m *maker) wrongReferences(data string, byHash *strings.Replacer) []vector {
	with := func(old, new string) string {
		changed := byHash.Replace(m.in(data, old, new))
		return m.encode(m.signed(m.draft(workload.TypeContainer, changed)))
	}
	v1 := m.draft(workload.TypeContainer, byHash.Replace(data))
	v1.Version, v1.Nonce = workload.V1, nil
	return staged("validate", []vector{
		{Name: "63 digits", Document: with(`"VOLUME"`, `"`+strings.Repeat("a", 63)+`"`), Reason: "a hash has 64 digits"},
		{Name: "65 digits", Document: with(`"NETWORK"`, `"`+strings.Repeat("a", 65)+`"`), Reason: "a hash has 64 digits"},
		{Name: "capital digits", Document: with(`"VOLUME"`, `"`+strings.Repeat("AB", 32)+`"`), Reason: "a hash has one text, in lower case"},
		{Name: "base64", Document: with(`"VOLUME"`, `"`+strings.Repeat("A", 43)+`="`), Reason: "a hash in data is hexadecimal"},
		{Name: "empty", Document: with(`"VOLUME"`, `""`), Reason: "a document that names no hash leaves the member out"},
		{Name: "null", Document: with(`"NETWORK"`, `null`), Reason: "a document that names no hash leaves the member out"},
		{Name: "version 1", Document: m.encode(m.signed(v1)), Reason: "documents of version 1 have no such member"},
	})
}
