package project

import "github.com/croft-edge/croft/pkg/workload"

// kind is the kind of a value in the file.
type kind int

const (
	textKind kind = iota
	// wordsKind is text; numbers and booleans are taken as they are written.
	wordsKind
	wholeKind
	boolKind
	addressKind
	// secretKind is {secret: SOURCE}.
	secretKind
	// volumeKind and networkKind name a workload of the file.
	volumeKind
	networkKind
	// objectKind has members, listKind and mapKind hold any number of one shape.
	objectKind
	listKind
	mapKind
)

// shape is the form of a part of a workload in the file.
type shape struct {
	kind    kind
	members map[string]member
	each    *shape
}

// member is a key of an object: its name in the reservation's data, and its shape.
type member struct {
	wire string
	shape
}

func object(members map[string]member) shape { return shape{kind: objectKind, members: members} }
func listOf(each shape) shape                { return shape{kind: listKind, each: &each} }
func mapOf(each shape) shape                 { return shape{kind: mapKind, each: &each} }

// same makes members whose name in the file is that in the data.
func same(k kind, names ...string) map[string]member {
	out := map[string]member{}
	for _, n := range names {
		out[n] = member{n, shape{kind: k}}
	}
	return out
}

func merged(all ...map[string]member) map[string]member {
	out := map[string]member{}
	for _, one := range all {
		for name, m := range one {
			out[name] = m
		}
	}
	return out
}

func shapeOf(t workload.Type) shape {
	switch t {
	case workload.TypeVolume:
		return object(merged(same(wholeKind, "size"), same(textKind, "type")))
	case workload.TypeZDB:
		return object(merged(same(wholeKind, "size"), same(textKind, "mode", "disk_type"), same(boolKind, "public"), same(secretKind, "password")))
	case workload.TypeContainer:
		return containerShape()
	case workload.TypeNetwork:
		return networkShape()
	case workload.TypeKubernetes:
		return object(merged(same(wholeKind, "size"), same(textKind, "network_id"), same(wordsKind, "network_hash"), same(addressKind, "ip"), same(secretKind, "cluster_secret"), map[string]member{
			"network":    {"network_id", shape{kind: networkKind}},
			"master_ips": {"master_ips", listOf(shape{kind: addressKind})},
			"ssh_keys":   {"ssh_keys", listOf(shape{kind: textKind})},
		}))
	case workload.TypeDebug:
		return object(merged(same(textKind, "host", "channel"), same(wholeKind, "port")))
	}
	return shape{}
}

func containerShape() shape {
	mount := object(merged(same(textKind, "volume_id", "mountpoint"), same(wordsKind, "volume_hash"), map[string]member{
		"volume": {"volume_id", shape{kind: volumeKind}},
	}))
	network := object(merged(same(textKind, "network_id"), same(wordsKind, "network_hash"), same(boolKind, "public_ip6"), map[string]member{
		"name": {"network_id", shape{kind: networkKind}},
		"ips":  {"ips", listOf(shape{kind: addressKind})},
	}))
	return object(merged(same(textKind, "flist", "flist_storage", "entrypoint"), same(boolKind, "interactive", "read_only", "no_capabilities", "non_root"), same(secretKind, "image_auth"), map[string]member{
		"env":        {"env", mapOf(shape{kind: wordsKind})},
		"secret_env": {"secret_env", mapOf(shape{kind: secretKind})},
		"mounts":     {"mounts", listOf(mount)},
		"network":    {"network", network},
		"capacity":   {"capacity", object(same(wholeKind, "cpu", "memory"))},
	}))
}

func networkShape() shape {
	peer := object(merged(same(textKind, "subnet", "wg_public_key", "endpoint"), map[string]member{
		"allowed_ips": {"allowed_ips", listOf(shape{kind: textKind})},
	}))
	resource := object(merged(same(textKind, "node_id", "subnet", "wg_public_key"), same(secretKind, "wg_private_key"), same(wholeKind, "wg_listen_port"), map[string]member{
		"peers": {"peers", listOf(peer)},
	}))
	return object(merged(same(textKind, "name", "ip_range"), map[string]member{
		"net_resources": {"net_resources", listOf(resource)},
	}))
}
