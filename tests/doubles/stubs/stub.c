/* stub.c - a library of the driver's name without a driver, where the CUDA toolkit has its own: nothing in it is called */
int plimsoll_stub_of_a_driver;
