// Adds to an HDF5 file a dataset of u16 so long that only its end can be real: chunks never written take no space.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul {

inline void add_sparse_dataset(const std::filesystem::path& path, const std::string& name, int64_t length,
                               const std::vector<uint16_t>& tail) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t extent = static_cast<hsize_t>(length), chunk = 16384, count = tail.size(), start = extent - count;
  const hid_t space = H5Screate_simple(1, &extent, nullptr), memory = H5Screate_simple(1, &count, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk);
  const hid_t dataset = H5Dcreate2(file, name.c_str(), H5T_STD_U16LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &count, nullptr);
  ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_UINT16, memory, space, H5P_DEFAULT, tail.data()), 0);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  H5Sclose(memory);
  H5Fclose(file);
}

}  // namespace longhaul
