package main

import "strings"

// leftOut are the folders and files of kernel modules that a node has no use for, below the kernel's folder kernel/: sound, video, radio,
// laptops' own devices, file systems that no node mounts, and drivers that do nothing without firmware that isn't free. Everything else is
// taken: network cards, disks, buses, input, sensors, watchdogs, and what networks and pools are made of.
func leftOut() []string {
	return []string{
		"sound/",

		"drivers/accel/", "drivers/accessibility/", "drivers/atm/", "drivers/auxdisplay/", "drivers/bluetooth/", "drivers/comedi/", "drivers/counter/", "drivers/devfreq/",
		"drivers/extcon/", "drivers/firewire/", "drivers/fpga/", "drivers/gnss/", "drivers/gpu/", "drivers/greybus/", "drivers/iio/", "drivers/infiniband/",
		"drivers/isdn/", "drivers/leds/", "drivers/media/", "drivers/memstick/", "drivers/mtd/", "drivers/most/", "drivers/nfc/", "drivers/ntb/",
		"drivers/parport/", "drivers/pcmcia/", "drivers/platform/", "drivers/power/", "drivers/rapidio/", "drivers/siox/", "drivers/slimbus/",
		"drivers/soundwire/", "drivers/spmi/", "drivers/ssb/", "drivers/staging/", "drivers/target/", "drivers/uio/", "drivers/ufs/", "drivers/video/",
		"drivers/w1/", "drivers/bcma/", "drivers/hsi/", "drivers/android/", "drivers/message/fusion/mptlan.ko", "drivers/ipack/", "drivers/mcb/", "drivers/vdpa/", "drivers/crypto/qat/", "drivers/crypto/intel/qat/",
		"drivers/crypto/chelsio/", "drivers/crypto/marvell/", "drivers/crypto/amcc/", "drivers/char/pcmcia/", "drivers/char/xillybus/", "drivers/char/mwave/",
		"drivers/input/gameport/", "drivers/input/joystick/", "drivers/input/tablet/", "drivers/input/touchscreen/", "drivers/input/misc/", "drivers/input/rmi4/",
		"drivers/misc/sgi-gru/", "drivers/misc/mei/", "drivers/misc/lis3lv02d/", "drivers/misc/altera-stapl/", "drivers/misc/habanalabs/", "drivers/misc/genwqe/",
		"drivers/block/aoe/", "drivers/block/drbd/", "drivers/block/rbd.ko", "drivers/block/rnbd/", "drivers/block/paride/", "drivers/block/floppy.ko", "drivers/block/ublk_drv.ko",
		"drivers/md/bcache/", "drivers/md/persistent-data/", "drivers/md/dm-cache", "drivers/md/dm-thin", "drivers/md/dm-era.ko", "drivers/md/dm-clone.ko",
		"drivers/md/dm-raid.ko", "drivers/md/dm-vdo/", "drivers/md/raid", "drivers/md/md-cluster.ko",
		"drivers/net/appletalk/", "drivers/net/arcnet/", "drivers/net/can/", "drivers/net/fddi/", "drivers/net/fjes/", "drivers/net/hamradio/", "drivers/net/hippi/",
		"drivers/net/ieee802154/", "drivers/net/plip/", "drivers/net/ppp/", "drivers/net/slip/", "drivers/net/wan/", "drivers/net/wireless/", "drivers/net/wwan/",
		"drivers/net/ethernet/8390/", "drivers/net/ethernet/xircom/", "drivers/net/ethernet/fujitsu/", "drivers/net/ethernet/3com/3c574", "drivers/net/ethernet/3com/3c589",
		"drivers/net/ethernet/smsc/smc91c92", "drivers/net/ethernet/amd/nmclan", "drivers/net/ethernet/mellanox/mlxsw/", "drivers/net/ethernet/netronome/", "drivers/net/ethernet/broadcom/bnx2x/", "drivers/net/ethernet/qlogic/", "drivers/net/ethernet/brocade/", "drivers/net/ethernet/cavium/", "drivers/net/ethernet/mscc/", "drivers/net/dsa/",
		"drivers/scsi/bfa/", "drivers/scsi/bnx2fc/", "drivers/scsi/csiostor/", "drivers/scsi/fcoe/", "drivers/scsi/fnic/", "drivers/scsi/libfc/", "drivers/scsi/lpfc/",
		"drivers/scsi/pcmcia/", "drivers/scsi/qedf/", "drivers/scsi/qedi/", "drivers/scsi/qla2xxx/", "drivers/scsi/qla4xxx/", "drivers/scsi/be2iscsi/",
		"drivers/scsi/bnx2i/", "drivers/scsi/cxgbi/", "drivers/scsi/qlogicfas408.ko", "drivers/scsi/ppa.ko", "drivers/scsi/imm.ko", "drivers/scsi/elx/", "drivers/scsi/efct/",
		"drivers/usb/atm/", "drivers/usb/gadget/", "drivers/usb/image/", "drivers/usb/misc/", "drivers/usb/musb/", "drivers/usb/usbip/", "drivers/usb/serial/", "drivers/usb/chipidea/",
		"drivers/vfio/", "drivers/nvme/target/", "drivers/nvme/host/nvme-rdma.ko", "drivers/nvme/host/nvme-fc.ko", "drivers/vhost/vhost_scsi.ko", "drivers/xen/xen-scsiback.ko",

		"lib/test_", "lib/test-", "lib/kunit/", "drivers/scsi/scsi_debug.ko", "drivers/block/null_blk/", "drivers/block/brd.ko",

		"fs/9p/", "fs/adfs/", "fs/affs/", "fs/afs/", "fs/befs/", "fs/bfs/", "fs/cachefiles/", "fs/ceph/", "fs/coda/", "fs/cramfs/", "fs/dlm/", "fs/ecryptfs/",
		"fs/efs/", "fs/erofs/", "fs/f2fs/", "fs/freevxfs/", "fs/fscache/", "fs/gfs2/", "fs/hfs/", "fs/hfsplus/", "fs/hpfs/", "fs/jffs2/", "fs/jfs/", "fs/lockd/",
		"fs/minix/", "fs/netfs/", "fs/nfs/", "fs/nfs_common/", "fs/nfsd/", "fs/nilfs2/", "fs/ntfs/", "fs/ntfs3/", "fs/ocfs2/", "fs/omfs/", "fs/orangefs/",
		"fs/qnx4/", "fs/qnx6/", "fs/quota/", "fs/reiserfs/", "fs/romfs/", "fs/smb/", "fs/smbfs_common/", "fs/sysv/", "fs/ubifs/", "fs/ufs/", "fs/vboxsf/", "fs/xfs/", "fs/zonefs/", "fs/bcachefs/",

		"net/6lowpan/", "net/9p/", "net/appletalk/", "net/atm/", "net/ax25/", "net/batman-adv/", "net/bluetooth/", "net/caif/", "net/can/", "net/ceph/", "net/dccp/",
		"net/decnet/", "net/dsa/", "net/hsr/", "net/ieee802154/", "net/ife/", "net/kcm/", "net/l2tp/", "net/lapb/", "net/mac80211/", "net/mac802154/", "net/netrom/", "net/nfc/",
		"net/phonet/", "net/qrtr/", "net/rds/", "net/rfkill/", "net/rose/", "net/rxrpc/", "net/sctp/", "net/smc/", "net/sunrpc/", "net/tipc/", "net/wireless/", "net/x25/",
	}
}

// taken are exceptions of leftOut: screens that show a console without firmware of their own, and what processors do for virtual machines.
func taken() []string {
	return []string{
		"drivers/gpu/drm/tiny/simpledrm.ko", "drivers/gpu/drm/tiny/bochs.ko", "drivers/gpu/drm/tiny/cirrus.ko", "drivers/gpu/drm/virtio/", "drivers/gpu/drm/ast/",
		"drivers/gpu/drm/mgag200/", "drivers/gpu/drm/hyperv/", "drivers/video/fbdev/hyperv_fb.ko", "drivers/input/misc/pcspkr.ko",
		"drivers/ufs/host/ufshcd-pci.ko", "drivers/platform/x86/wmi.ko",
	}
}

// wantedModule tells whether the image has a module for its own sake; others come with those that need them. The path is that below the
// folder of modules.
func wantedModule(file string) bool {
	at := strings.TrimPrefix(file, "kernel/")
	below := func(prefixes []string) bool {
		for _, prefix := range prefixes {
			if strings.HasPrefix(at, prefix) {
				return true
			}
		}
		return false
	}
	return below(taken()) || !below(leftOut())
}

// bootModules are the modules of the initrd, beside those that they need: what leads from any machine's power button to the image, and
// nothing of which the machine could do more once it has its root file system.
func bootModules() []string {
	return []string{
		// What the image is read through.
		"loop", "dm_verity", "sha256_ssse3", "squashfs", "overlay", "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8",
		// Disks of virtual machines.
		"virtio_pci", "virtio_mmio", "virtio_blk", "virtio_scsi", "vmw_pvscsi", "hv_storvsc", "xen_blkfront",
		// Disks of machines.
		"ahci", "ata_piix", "ata_generic", "sata_nv", "sata_sil24", "sata_via", "nvme", "vmd", "sd_mod", "sr_mod",
		"mpt3sas", "mptspi", "mptsas", "megaraid_sas", "aacraid", "hpsa", "smartpqi", "mpi3mr", "arcmsr", "isci",
		// USB, and cards.
		"xhci_pci", "ehci_pci", "ohci_pci", "uhci_hcd", "usb_storage", "uas", "mmc_block", "sdhci_pci", "sdhci_acpi", "rtsx_pci", "rtsx_pci_sdmmc", "rtsx_usb_sdmmc",
	}
}
