package powercut

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The protocol is fixed newstyle NBD, https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md, as far as QEMU uses it.
const (
	hello         = 0x4e42444d41474943 // NBDMAGIC
	optionMagic   = 0x49484156454f5054 // IHAVEOPT
	optionReply   = 0x3e889045565a9
	requestMagic  = 0x25609513
	responseMagic = 0x67446698

	newstyle, noZeroes = 1, 2

	optionExport, optionAbort, optionInfo, optionGo = 1, 2, 6, 7
	replyAck, replyInfo, replyUnknown               = 1, 3, 1<<31 + 1
	infoExport, infoBlocks                          = 0, 3

	// abilities are what the disk can: HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM.
	abilities = 1 | 4 | 8 | 32

	commandRead, commandWrite, commandEnd, commandFlush, commandTrim = 0, 1, 2, 3, 4
	flagThrough                                                      = 1

	// mostOption and mostData bound what a client sends, in bytes.
	mostOption, mostData = 64 << 10, 32 << 20
)

var errEnd = errors.New("the client has ended")

// serve speaks to a client until it ends.
func (d *Disk) serve(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	in := bufio.NewReaderSize(conn, 1<<20)
	if err := d.negotiate(conn, in); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	for {
		if err := d.request(conn, in); err != nil {
			return err
		}
	}
}

// fields are numbers in the network's order, by their sizes.
func fields(values ...any) []byte {
	var out []byte
	for _, v := range values {
		out, _ = binary.Append(out, binary.BigEndian, v)
	}
	return out
}

func (d *Disk) negotiate(conn io.Writer, in io.Reader) error {
	if _, err := conn.Write(fields(uint64(hello), uint64(optionMagic), uint16(newstyle|noZeroes))); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(in, binary.BigEndian, &flags); err != nil {
		return err
	}
	for {
		var head struct {
			Magic        uint64
			Option, Size uint32
		}
		if err := binary.Read(in, binary.BigEndian, &head); err != nil {
			return err
		}
		if head.Magic != optionMagic || head.Size > mostOption {
			return fmt.Errorf("cannot read the option %+v", head)
		}
		if _, err := io.CopyN(io.Discard, in, int64(head.Size)); err != nil {
			return err
		}
		ready, err := d.option(conn, head.Option, flags)
		if ready || err != nil {
			return err
		}
	}
}

// option answers an option, and reports whether the client uses the disk from then on.
func (d *Disk) option(conn io.Writer, option, flags uint32) (ready bool, err error) {
	reply := func(kind uint32, data []byte) []byte {
		return append(fields(uint64(optionReply), option, kind, uint32(len(data))), data...)
	}
	var out []byte
	switch option {
	case optionExport:
		out, ready = fields(d.size, uint16(abilities)), true
		if flags&noZeroes == 0 {
			out = append(out, make([]byte, 124)...)
		}
	case optionInfo, optionGo:
		out = reply(replyInfo, fields(uint16(infoExport), d.size, uint16(abilities)))
		out = append(out, reply(replyInfo, fields(uint16(infoBlocks), uint32(Sector), uint32(4096), uint32(mostData)))...)
		out, ready = append(out, reply(replyAck, nil)...), option == optionGo
	case optionAbort:
		out, err = reply(replyAck, nil), errEnd
	default:
		out = reply(replyUnknown, nil)
	}
	if _, failed := conn.Write(out); failed != nil {
		return false, failed
	}
	return ready, err
}

// request answers one request.
func (d *Disk) request(conn io.Writer, in io.Reader) error {
	var r struct {
		Magic       uint32
		Flags, Kind uint16
		Handle      uint64
		Offset      int64
		Size        uint32
	}
	if err := binary.Read(in, binary.BigEndian, &r); err != nil {
		return err
	}
	if r.Magic != requestMagic || r.Size > mostData && r.Kind <= commandWrite {
		return fmt.Errorf("cannot read the request %+v", r)
	}
	var data []byte
	if r.Kind <= commandWrite {
		data = make([]byte, r.Size)
	}
	if r.Kind == commandWrite {
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
	}
	var err error
	switch {
	case r.Kind == commandEnd:
		return errEnd
	case r.Kind == commandFlush:
		err = d.flush()
	case r.Kind > commandTrim || r.Offset < 0 || r.Offset+int64(r.Size) > d.size || r.Offset%Sector != 0 || r.Size%Sector != 0:
		err = unix.EINVAL
	case r.Kind == commandRead:
		err = d.read(data, r.Offset)
	case r.Kind == commandWrite:
		err = d.write(data, r.Offset, r.Flags&flagThrough != 0)
	case r.Kind == commandTrim:
		err = d.trim(r.Offset, int64(r.Size))
	}
	code := uint32(0)
	if err != nil {
		code, data = uint32(unix.EIO), nil
		if err == unix.EINVAL { //nolint:errorlint // it is this function's own
			code = uint32(unix.EINVAL)
		}
	}
	out := fields(uint32(responseMagic), code, r.Handle)
	if r.Kind == commandRead {
		out = append(out, data...)
	}
	_, err = conn.Write(out)
	return err
}
