package spec

import (
	"bytes"
	"io"
	"path"
	"strings"

	"github.com/moby/sys/user"

	"github.com/croft-edge/croft/pkg/node"
)

// identity is a process's user and groups.
type identity struct {
	uid, gid uint32
	groups   []uint32
	home     string
}

// lookUp finds an image's user: "name", "name:group", or IDs in place of either;
// root when it is empty. An ID needs no entry in the image's files. Groups that
// the files put a user into count when no group is named.
func lookUp(name, root string) (identity, error) {
	if strings.ContainsAny(name, "\x00\n") || strings.Count(name, ":") > 1 {
		return identity{}, node.Errorf(node.Invalid, "cannot use the image's user %.80q: must be NAME, NAME:GROUP or their IDs", name)
	}
	passwd, err := readInRoot(root, "/etc/passwd")
	if err != nil {
		return identity{}, err
	}
	group, err := readInRoot(root, "/etc/group")
	if err != nil {
		return identity{}, err
	}
	found, err := user.GetExecUser(name, &user.ExecUser{}, reader(passwd), reader(group))
	if err != nil {
		return identity{}, node.Errorf(node.Invalid, "cannot use the image's user %.80q: %v; must be in the image's /etc/passwd and /etc/group, or IDs", name, err)
	}
	who := identity{home: homeOf(found)}
	ids := append([]int{found.Uid, found.Gid}, found.Sgids...)
	for _, id := range ids {
		if id < 0 || id >= IDs {
			return identity{}, node.Errorf(node.Invalid, "cannot use the image's user %.80q: its ID or one of its groups' is %d, must be from 0 to %d", name, id, IDs-1)
		}
	}
	if len(found.Sgids) > maxGroups {
		return identity{}, node.Errorf(node.Invalid, "cannot use the image's user %.80q: it is in %d groups, at most %d are allowed", name, len(found.Sgids), maxGroups)
	}
	who.uid, who.gid = uint32(found.Uid), uint32(found.Gid)
	for _, id := range found.Sgids {
		who.groups = append(who.groups, uint32(id))
	}
	return who, nil
}

// maxGroups is how many groups a process may be in: far below the kernel's 65536.
const maxGroups = 1024

func homeOf(u *user.ExecUser) string {
	switch {
	case path.IsAbs(u.Home) && !strings.ContainsRune(u.Home, 0):
		return u.Home
	case u.Uid == 0:
		return "/root"
	}
	return "/"
}

// reader is nil for a file that isn't there: that is no reader at all.
func reader(content []byte) io.Reader {
	if content == nil {
		return nil
	}
	return bytes.NewReader(content)
}
